/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * paced EVENT EVENTS BURST INTERVAL_US: records so many of an event, `first` or `second`, a burst in each interval, until there were enough or standard input closes. Says
 * "running" at first and at the end how many there were. It never catches up: a thread that was held up goes on with its next burst an
 * interval later, so that what is lost is not of its own making.
 */
#define _GNU_SOURCE
#include <piste/tracepoint.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PISTE_EVENT(bench, first, (int32_t, v))
PISTE_EVENT(bench, second, (int32_t, v))

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t time_ns)
{
	struct timespec time = {(time_t)(time_ns / 1000000000u), (long)(time_ns % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

/* Nobody writes to standard input: it is readable once it is closed. */
static int is_wanted(void)
{
	struct pollfd input = {STDIN_FILENO, POLLIN, 0};

	return poll(&input, 1, 0) == 0;
}

int main(int argument_count, char **arguments)
{
	bool is_first;
	uint64_t wanted, burst, interval_ns, made = 0, next_ns;

	if (argument_count != 5) {
		fprintf(stderr, "paced EVENT EVENTS BURST INTERVAL_US\n");
		return 2;
	}
	is_first = strcmp(arguments[1], "first") == 0;
	wanted = strtoull(arguments[2], NULL, 10);
	burst = strtoull(arguments[3], NULL, 10);
	interval_ns = strtoull(arguments[4], NULL, 10) * 1000;
	printf("running\n");
	fflush(stdout);
	next_ns = now_ns();
	while (made < wanted && is_wanted()) {
		uint64_t end = made + burst < wanted ? made + burst : wanted;

		for (; made < end; made++)
			if (is_first)
				piste(bench, first, (int32_t)made);
			else
				piste(bench, second, (int32_t)made);
		next_ns += interval_ns;
		if (next_ns < now_ns())
			next_ns = now_ns() + interval_ns;
		sleep_until(next_ns);
	}
	printf("%llu\n", (unsigned long long)made);
	return 0;
}
