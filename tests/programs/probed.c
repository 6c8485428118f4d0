// SPDX-License-Identifier: MIT OR Apache-2.0
/* What probes find: a function that is called COUNT times, a static probe behind its semaphore in two places, one of which each call takes,
 * and a system call after each. Rests for REST microseconds after each hundred. Waits for a line before it begins, and says how often
 * somebody listened to the static probe; then it waits for another. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define FIRST 1000000

unsigned short shop_order_semaphore __attribute__((section(".probes")));

/* Whoever calls it must not know what it does: all of its arguments are there. */
__attribute__((noinline, noclone)) int work(int number, const char *text)
{
	__asm__ volatile("" : : "r"(number), "r"(text) : "memory");
	return -2 * number;
}

static inline __attribute__((always_inline)) int order(int number, long long price)
{
	if (!__atomic_load_n(&shop_order_semaphore, __ATOMIC_RELAXED))
		return 0;
	STAP_PROBE2(shop, order, number, price);
	return 1;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1000;
	useconds_t rest_us = argc > 2 ? (useconds_t)atoi(argv[2]) : 0;
	int listened = 0;
	char line[16];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int number = 0; number < count; number++) {
		work(number, number % 2 ? "odd" : "even");
		close(FIRST + number);
		if (number % 2)
			listened += order(number, -1LL - number);
		else
			listened += order(number, 1LL << 40);
		if (rest_us && number % 100 == 99)
			usleep(rest_us);
	}
	printf("%d\n", listened);
	fflush(stdout);
	return fgets(line, sizeof line, stdin) ? 0 : 1;
}
