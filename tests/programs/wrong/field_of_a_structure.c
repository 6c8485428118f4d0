/* Expected: which an event cannot hold; write an integer, bool, char, float, double, pointer or const char * */
#include <piste/tracepoint.h>

struct point {
	int x, y;
};

PISTE_EVENT(shop, order, (struct point, where))

int main(void)
{
	return 0;
}
