/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * detached LOSS_MODE: a thread whose channel goes while it records. Single-steps an event, and forks at every fifth instruction: in the child
 * the channel is detached there, as the runtime's thread may do at any moment, and the event goes on. An event that stays in its sub-buffer,
 * and events that enter another one; on the general path, and on the fast path. Prints how often, of each. A child that comes to grief ends
 * the program with status 1.
 */
#define _GNU_SOURCE
#include "channel_memory.h"
#include "runtime.h"

#include <piste/tracepoint.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY       7
#define TRAP_FLAG 0x100
/* Instructions from one child to the next. */
#define STRIDE 5
/* Children at once. While an event is on the fast path, there are fewer: it must not take so long that it leaves that path. */
#define CHILDREN_MAX 16

PISTE_EVENT(detached, tick, (uint64_t, number), (const char *, text))
PISTE_EVENT(detached, tock, (uint64_t, number), (uint64_t, again), (uint64_t, and_again))

static volatile bool ended, is_child;
/* Until the next child begins. */
static volatile unsigned long steps_left;
static volatile unsigned long child_count, running_count;

static void detach(void)
{
	sigset_t before;

	piste_lock(&before);
	piste_channel_detach(0, KEY);
	piste_unlock(&before);
}

static void wait_for_children(unsigned long running_max)
{
	for (int status; running_count > running_max; running_count--)
		if (wait(&status) < 0 || status != 0) {
			fprintf(stderr, "a child ended with wait status 0x%x\n", (unsigned int)status);
			_exit(1);
		}
}

/* One instruction was executed. */
static void step(int signal, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)signal;
	(void)info;
	if (ended)
		*flags &= ~(greg_t)TRAP_FLAG;
	if (ended || steps_left-- > 0)
		return;
	steps_left = STRIDE - 1;
	wait_for_children(CHILDREN_MAX - 1);
	child_count++;
	running_count++;
	/* Without the handlers of fork, which let go of the channel. */
	switch (_Fork()) {
	case -1:
		_exit(4);
	case 0:
		*flags &= ~(greg_t)TRAP_FLAG;
		is_child = true;
		detach();
	}
}

/* Forks inherit the channel, with the memory as it is. */
static void keep_over_forks(struct piste_channel *channel, int memory, uint64_t bytes)
{
	void *place = piste_channel_header(channel);

	if (madvise(channel, channel->header_offset_bytes, MADV_KEEPONFORK) != 0 ||
	    mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, memory, 0) != place)
		_exit(5);
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
	keep_over_forks(piste_channel_at(0), memory, header.total_bytes);
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

/* In a new channel. */
static void record_one(uint32_t loss_mode, bool fast)
{
	attach(loss_mode, fast);
	record(fast, 0);
	detach();
}

/* Detaches after that many instructions, and after every STRIDE more. */
static void record_and_detach(uint32_t loss_mode, bool fast, unsigned long events_before, unsigned long first_steps)
{
	attach(loss_mode, fast);
	for (unsigned long number = 0; number < events_before; number++)
		record(fast, number);
	ended = false;
	steps_left = first_steps;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	record(fast, events_before);
	ended = true;
	__asm__ volatile("nop; nop");
	if (is_child) {
		record_one(loss_mode, fast);
		_exit(0);
	}
	detach();
	wait_for_children(0);
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
	/* The first event, one in the middle, those at the ends of both sub-buffers. The channel goes at other instructions of each: all of
	 * an event's have their turn. */
	const unsigned long before[STRIDE] = {0, 10, events_of_subbuf(), 2 * events_of_subbuf(),
	                                      3 * events_of_subbuf()};

	sigaction(SIGTRAP, &action, NULL);
	choose_ring(&piste_this_module.offsets, 5);
	for (int fast = 0; fast <= 1; fast++) {
		child_count = 0;
		/* What a thread does only once. */
		record_one(loss_mode, fast);
		for (size_t index = 0; index < STRIDE; index++)
			record_and_detach(loss_mode, fast, before[index], index);
		printf("%lu\n", child_count);
	}
	return 0;
}
