/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* preload_functions TIMES: calls a function TIMES, compiled with -finstrument-functions. Prints the function's address. */
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) unsigned long twice(unsigned long number)
{
	__asm__ volatile("");
	return 2 * number;
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, sum = 0;
	unsigned long (*function)(unsigned long) = twice;

	for (unsigned long turn = 0; turn < times; turn++)
		sum += twice(turn);
	printf("%#lx\n", (unsigned long)function);
	return sum == times * (times - 1) ? 0 : 1;
}
