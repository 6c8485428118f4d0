/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stepped: how many instructions an event takes, counted by single-stepping a function that does nothing else: the look whether the event
 * is recorded, the call, the record, the return. Prints a line with the name and the smallest number of many times for each event: now and
 * then an event takes the general path.
 */
#define _GNU_SOURCE
#include <piste/tracepoint.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#define TIMES 50

PISTE_EVENT(stepped, disabled, (int32_t, number))
PISTE_EVENT(stepped, four_bytes, (int32_t, number))
PISTE_EVENT(stepped, rejected, (int32_t, number))
PISTE_EVENT(stepped, eight_bytes, (int32_t, number), (int32_t, again))
PISTE_EVENT(stepped, text, (const char *, text))

static volatile unsigned long steps;

static void step(int signal)
{
	(void)signal;
	steps++;
}

static __attribute__((noinline)) void nothing(int32_t number)
{
	__asm__ volatile("" ::"r"(number));
}

static __attribute__((noinline)) void disabled(int32_t number)
{
	piste(stepped, disabled, number);
}

static __attribute__((noinline)) void four_bytes(int32_t number)
{
	piste(stepped, four_bytes, number);
}

static __attribute__((noinline)) void rejected(int32_t number)
{
	piste(stepped, rejected, number);
}

static __attribute__((noinline)) void eight_bytes(int32_t number)
{
	piste(stepped, eight_bytes, number, number);
}

static __attribute__((noinline)) void text(int32_t number)
{
	(void)number;
	piste(stepped, text, "text");
}

static unsigned long steps_of(void (*call)(int32_t))
{
	steps = 0;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	call(7);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	return steps;
}

static void count(const char *name, void (*call)(int32_t))
{
	unsigned long fewest = -1ul;

	for (int time = 0; time < TIMES; time++) {
		/* All but the return, which both have. */
		unsigned long taken = steps_of(call) - steps_of(nothing) + 1;

		fewest = taken < fewest ? taken : fewest;
	}
	printf("%s %lu\n", name, fewest);
}

int main(void)
{
	const struct sigaction action = {.sa_handler = step};
	cpu_set_t here;

	/* Each step is a chance to get to another CPU. */
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	sigaction(SIGTRAP, &action, NULL);
	count("disabled", disabled);
	count("four_bytes", four_bytes);
	count("rejected", rejected);
	count("eight_bytes", eight_bytes);
	count("text", text);
	return 0;
}
