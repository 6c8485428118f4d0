/* Expected: write each label of PISTE_ENUM as (label, value), for example (OPEN, 1) */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_ENUM(state, OPEN, CLOSED))

int main(void)
{
	return 0;
}
