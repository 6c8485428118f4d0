/* Expected: write piste(provider, event, arguments...) */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order)

int main(void)
{
	piste(shop);
	return 0;
}
