/* Expected: PISTE_LEVEL_LOUD */
#include <piste/tracepoint.h>

PISTE_EVENT_LEVEL(shop, order, LOUD, (int32_t, id))

int main(void)
{
	return 0;
}
