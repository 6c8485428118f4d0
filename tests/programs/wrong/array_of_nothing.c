/* Expected: PISTE_ARRAY 'digest' must have 1 to 4096 elements; write PISTE_SEQUENCE for more */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_ARRAY(uint8_t, digest, 0))

int main(void)
{
	return 0;
}
