/* Expected: a field name has more than 127 characters */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order,
            (int32_t, n12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678))

int main(void)
{
	return 0;
}
