// SPDX-License-Identifier: MIT OR Apache-2.0
/* Counts to ten million, then lets others go first as often as the argument says. Prints its pid and how long it had a CPU for each, in
 * nanoseconds. */

#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long used_ns(void)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000LL + used.tv_nsec;
}

int main(int argc, char **argv)
{
	long yields = argc > 1 ? atol(argv[1]) : 1000000;
	long long begin_ns = used_ns();
	for (volatile int i = 0; i < 10 * 1000 * 1000; i++)
		;
	long long counted_ns = used_ns();
	for (long i = 0; i < yields; i++)
		sched_yield();
	long long end_ns = used_ns();
	printf("%d %lld %lld\n", (int)getpid(), counted_ns - begin_ns, end_ns - counted_ns);
	return 0;
}
