/* Expected: field 'price' has the type 'long double', which an event cannot hold */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (int32_t, id), (long double, price))

int main(void)
{
	return 0;
}
