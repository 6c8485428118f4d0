/* Expected: write an integer type in PISTE_HEX(type, price) */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_HEX(double, price))

int main(void)
{
	return 0;
}
