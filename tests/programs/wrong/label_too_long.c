/* Expected: a label has more than 127 characters */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order,
            PISTE_ENUM(state, (l12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678, 1)))

int main(void)
{
	return 0;
}
