// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls a function five times, for uprobes. */

#include <stdio.h>

__attribute__((noinline)) int greet(const char *name, int times)
{
	return printf("hello %s, %d\n", name, times);
}

int main(void)
{
	int printed = 0;
	for (int times = 0; times < 5; times++)
		printed += greet("ada", times);
	return printed == 0;
}
