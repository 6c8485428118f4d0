/* Expected: too few arguments | no matching function */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_SEQUENCE(uint8_t, bytes))

int main(void)
{
	const uint8_t bytes[3] = {1, 2, 3};

	piste(shop, order, bytes);
	return 0;
}
