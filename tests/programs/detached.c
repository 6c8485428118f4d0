/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * detached LOSS_MODE STRIDE: a thread whose channel goes while it records. Records an event again and again, each time with a new channel
 * that is detached STRIDE instructions later, as the runtime's thread may do at any moment: an event that stays in its sub-buffer, and
 * events that enter another one; on the general path, and on the fast path. Prints how often, of each. A thread that comes to grief
 * ends the process.
 */
#define _GNU_SOURCE
#include "channel_memory.h"
#include "runtime.h"

#include <piste/tracepoint.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define KEY          7
#define TRAP_FLAG    0x100

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

PISTE_EVENT(detached, tick, (uint64_t, number), (const char *, text))
PISTE_EVENT(detached, tock, (uint64_t, number), (uint64_t, again), (uint64_t, and_again))

static volatile uint64_t steps_left;
static volatile bool ended;

static void detach(void)
{
	sigset_t before;

	piste_lock(&before);
	piste_channel_detach(0, KEY);
	piste_unlock(&before);
}

/* One instruction was executed. */
static void step(int signal, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)signal;
	(void)info;
	if (steps_left-- > 0 && !ended)
		return;
	*flags &= ~(greg_t)TRAP_FLAG;
	if (!ended)
		detach();
}

static void attach(uint32_t loss_mode, bool fast)
{
	struct piste_channel_header header = good_header(KEY, PAGE, 2);
	struct piste_module *module;
	sigset_t before;
	int memory;

	header.loss_mode = loss_mode;
	header.contexts = fast ? 0 : PISTE_CONTEXT_ALL;
	header.clock = PISTE_CLOCK_TSC;
	memory = make_memory(&header, header.total_bytes, SEALS);
	piste_lock(&before);
	if (piste_channel_attach(0, KEY, 0, (struct piste_channel_files){memory, -1, 0}) != 0)
		_exit(3);
	for (module = piste_modules_after(0); module; module = piste_modules_after(module->id))
		for (uint32_t index = 0; index < piste_module_event_count(module); index++)
			piste_event_enable(piste_module_event(module, index), 0, piste_channel_at(0), index, NULL);
	piste_unlock(&before);
	close(memory);
}

/* Lets a variable of the thread say which ring it writes to. */
static __thread uint32_t ring_index;

static void choose_ring(struct piste_thread_offsets *offsets, uint32_t index)
{
	ring_index = index;
	offsets->index = (int64_t)((uintptr_t)&ring_index - (uintptr_t)__builtin_thread_pointer());
}

static void record(bool fast, unsigned long number)
{
	if (fast)
		piste(detached, tock, number, number, number);
	else
		piste(detached, tick, number, "a text");
}

/* False when the event had fewer steps. */
static bool record_and_detach(uint32_t loss_mode, bool fast, unsigned long events_before, unsigned long after_steps)
{
	attach(loss_mode, fast);
	for (unsigned long number = 0; number < events_before; number++)
		record(fast, number);
	ended = false;
	steps_left = after_steps;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	record(fast, events_before);
	ended = true;
	__asm__ volatile("nop; nop");
	detach();
	return steps_left == UINT64_MAX;
}

/* How many of these events fit into a sub-buffer: of four units each. */
static unsigned long events_of_subbuf(void)
{
	return (PAGE - sizeof(struct piste_packet_header)) / (4 * PISTE_UNIT_BYTES);
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
	uint32_t loss_mode = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	unsigned long stride = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	/* The first event, one in the middle, those at the ends of both sub-buffers. */
	const unsigned long before[] = {0, 10, events_of_subbuf(), 2 * events_of_subbuf(), 3 * events_of_subbuf()};

	sigaction(SIGTRAP, &action, NULL);
	choose_ring(&piste_this_module.offsets, 5);
	for (int fast = 0; fast <= 1; fast++) {
		unsigned long times = 0;

		/* The k-th of them goes at every fifth instruction of the fast path, beginning with the k-th: all five go at all. */
		for (size_t index = 0; index < COUNT(before); index++)
			for (unsigned long steps = index; record_and_detach(loss_mode, fast, before[index], steps);
			     steps += fast ? COUNT(before) : stride)
				times++;
		printf("%lu\n", times);
	}
	return 0;
}
