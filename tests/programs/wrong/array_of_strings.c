/* Expected: the elements of PISTE_ARRAY 'names' must be integers, float or double */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, PISTE_ARRAY(const char *, names, 2))

int main(void)
{
	return 0;
}
