/* Expected: expects argument of type 'char | format specifies type 'char *' */
#include <piste/tracepoint.h>

int main(void)
{
	piste_printf("%s orders", 42);
	return 0;
}
