/* Expected: write PISTE_EVENT(provider, event, fields...) */
#include <piste/tracepoint.h>

PISTE_EVENT(shop)

int main(void)
{
	return 0;
}
