/* Expected: the elements of PISTE_SEQUENCE 'callers' must be integers, float or double */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_SEQUENCE(void *, callers))

int main(void)
{
	return 0;
}
