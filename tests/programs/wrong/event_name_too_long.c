/* Expected: the provider and the name of an event have at most 127 characters each */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, e12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678)

int main(void)
{
	return 0;
}
