/* Expected: PISTE_EVENT__shop__refund */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (int32_t, id))

int main(void)
{
	piste(shop, refund, 1);
	return 0;
}
