/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stepped_steps: how many instructions the events take that `piste bench` ends after each step (crates/bench/src/measured/steps.c, which this is
 * linked with in place of crates/bench/src/measured/rounds.c), counted by single-stepping. Prints a line with the name and the number for each.
 * What a call does once for all of its events does not count.
 */
#define _GNU_SOURCE
#include "rounds.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>

#define TIMES  20
#define EVENTS 5

static volatile unsigned long steps;

static void step(int signal)
{
	(void)signal;
	steps++;
}

static unsigned long steps_of(const struct variant *variant, uint64_t count)
{
	steps = 0;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	variant->record(0, count);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	return steps;
}

/* Now and then an event takes the general path, so the smallest number of many times counts. */
static unsigned long fewest_steps_of(const struct variant *variant, uint64_t count)
{
	unsigned long fewest = -1ul;

	for (int time = 0; time < TIMES; time++) {
		unsigned long taken = steps_of(variant, count);

		fewest = taken < fewest ? taken : fewest;
	}
	return fewest;
}

int serve_rounds(int argument_count, char **arguments, const struct variant *variants, uint32_t variant_count)
{
	const struct sigaction action = {.sa_handler = step};
	cpu_set_t here;

	(void)argument_count;
	(void)arguments;
	/* Each step is a chance to get to another CPU. */
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	sigaction(SIGTRAP, &action, NULL);
	for (uint32_t index = 0; index < variant_count; index++) {
		unsigned long of_one = fewest_steps_of(&variants[index], 1);
		unsigned long of_many = fewest_steps_of(&variants[index], 1 + EVENTS);

		printf("%s %lu\n", variants[index].name, (of_many - of_one) / EVENTS);
	}
	return 0;
}
