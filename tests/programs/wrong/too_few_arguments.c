/* Expected: too few arguments | no matching function */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (int32_t, id), (double, price))

int main(void)
{
	piste(shop, order, 42);
	return 0;
}
