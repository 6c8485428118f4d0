/* Expected: too many arguments | no matching function */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (int32_t, id))

int main(void)
{
	piste(shop, order, 42, 9.5);
	return 0;
}
