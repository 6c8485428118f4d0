/* Expected: the value of the label 'CLOSED' must fit in 32 bits */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_ENUM(state, (OPEN, 0), (CLOSED, 4294967296)))

int main(void)
{
	return 0;
}
