/* Expected: write the field 'id' as (type, name), for example (int32_t, id) */
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, id)

int main(void)
{
	return 0;
}
