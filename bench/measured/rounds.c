/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rounds on request: see rounds.h. CPU time is that of the thread, so that a machine with other work stretches it less than the wall time.
 */
#define _GNU_SOURCE
#include "rounds.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREAD_COUNT_MAX 64

struct elapsed {
	uint64_t cpu_ns;
	uint64_t wall_ns;
};

/* The round that all threads run; the first thread sets it between `end` and `begin`. */
static struct {
	const struct variant *variant;
	uint64_t warm_up;
	uint64_t count;
} current;

static pthread_barrier_t begin, measure, end;
static struct elapsed elapsed[THREAD_COUNT_MAX];

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* To the index-th of the CPUs that the program may use. */
static void pin(uint32_t index)
{
	cpu_set_t allowed, one;
	int skip;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	skip = (int)index % CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void run_round(uint32_t thread)
{
	uint64_t cpu_ns, wall_ns;

	pthread_barrier_wait(&begin);
	current.variant->record(current.warm_up);
	pthread_barrier_wait(&measure);
	wall_ns = nanoseconds(CLOCK_MONOTONIC);
	cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	current.variant->record(current.count);
	elapsed[thread].cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	elapsed[thread].wall_ns = nanoseconds(CLOCK_MONOTONIC) - wall_ns;
	pthread_barrier_wait(&end);
}

static void *help(void *thread)
{
	pin((uint32_t)(uintptr_t)thread);
	for (;;)
		run_round((uint32_t)(uintptr_t)thread);
	return NULL;
}

static const struct variant *find(const struct variant *variants, uint32_t variant_count, const char *name)
{
	for (uint32_t index = 0; index < variant_count; index++)
		if (strcmp(variants[index].name, name) == 0)
			return &variants[index];
	return NULL;
}

static void report(uint32_t threads)
{
	struct elapsed sum = {0, 0};

	for (uint32_t thread = 0; thread < threads; thread++) {
		sum.cpu_ns += elapsed[thread].cpu_ns;
		sum.wall_ns += elapsed[thread].wall_ns;
	}
	printf("%llu %llu\n", (unsigned long long)(sum.cpu_ns / threads), (unsigned long long)(sum.wall_ns / threads));
	fflush(stdout);
}

int serve_rounds(int argument_count, char **arguments, const struct variant *variants, uint32_t variant_count)
{
	long threads = argument_count > 1 ? atol(arguments[1]) : 1;
	unsigned long long warm_up, count;
	char name[64];

	if (threads < 1 || threads > THREAD_COUNT_MAX) {
		fprintf(stderr, "%s: 1 to %d threads, not %ld\n", arguments[0], THREAD_COUNT_MAX, threads);
		return 2;
	}
	pthread_barrier_init(&begin, NULL, (unsigned int)threads);
	pthread_barrier_init(&measure, NULL, (unsigned int)threads);
	pthread_barrier_init(&end, NULL, (unsigned int)threads);
	for (long thread = 1; thread < threads; thread++) {
		pthread_t helper;

		if (pthread_create(&helper, NULL, help, (void *)thread) != 0) {
			fprintf(stderr, "%s: cannot start a thread\n", arguments[0]);
			return 1;
		}
	}
	/* After the others have started, which would inherit it. Each round waits for all of them. */
	pin(0);
	while (scanf("%63s %llu %llu", name, &warm_up, &count) == 3) {
		current.variant = find(variants, variant_count, name);
		if (!current.variant) {
			fprintf(stderr, "%s: no variant '%s'\n", arguments[0], name);
			return 2;
		}
		current.warm_up = warm_up;
		current.count = count;
		run_round(0);
		report((uint32_t)threads);
	}
	return 0;
}
