// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for a line on its standard input, then calls functions as often as it is told.
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int work(int number, const char *text, long long wide)
{
	__asm__ volatile("" : : "r"(number), "r"(text), "r"(wide) : "memory");
	return -2 * number;
}
int the_same_work(int number, const char *text, long long wide) __attribute__((alias("work")));

static int chosen(void)
{
	return 7;
}
static int (*choose(void))(void)
{
	return chosen;
}
int indirect(void) __attribute__((ifunc("choose")));

int main(int count, char **arguments)
{
	int calls = count > 1 ? atoi(arguments[1]) : 0;
	int sum = indirect();
	if (getchar() == EOF)
		return 1;
	for (int call = 0; call < calls; call++)
		sum += work(call, call % 2 ? "odd" : "even", -1LL - call);
	printf("%d\n", sum);
	return 0;
}
