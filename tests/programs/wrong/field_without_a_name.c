/* Expected: write the field '(int32_t)' as (type, name), for example (int32_t, id) */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (const char *, customer), (int32_t))

int main(void)
{
	return 0;
}
