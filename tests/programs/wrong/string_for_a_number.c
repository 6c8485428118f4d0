/* Expected: makes integer from pointer | incompatible pointer to integer conversion | invalid conversion | no matching function */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (int32_t, id))

int main(void)
{
	piste(shop, order, "forty-two");
	return 0;
}
