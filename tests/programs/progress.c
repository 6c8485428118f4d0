/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * progress FILE THREADS EVENTS IDLE [fixed]: records numbered events, and after each one says so in FILE, which holds a uint64 for each thread:
 * how many of its calls have returned. Whoever kills this program reads there what the trace must have. EVENTS 0 is endless; IDLE
 * turns of an empty loop between two events make room for the rest of the computer. With `fixed`, two of three events are of fixed size.
 */
#include <fcntl.h>
#include <piste/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

PISTE_EVENT(progress, tick, (uint32_t, thread), (uint64_t, number), (const char *, text))
PISTE_EVENT(progress, tock, (uint32_t, thread), (uint64_t, number))

static uint64_t *returned;
static uint64_t events, idle_turns;
static int fixed;

static void *work(void *argument)
{
	static const char *const texts[] = {"", "a few bytes", "somewhat more bytes than in the text before this one"};
	uint32_t thread = (uint32_t)(uintptr_t)argument;

	for (uint64_t number = 0; events == 0 || number < events; number++) {
		if (fixed && number % 3 != 0)
			piste(progress, tock, thread, number);
		else
			piste(progress, tick, thread, number, texts[number % 3]);
		__atomic_store_n(&returned[thread], number + 1, __ATOMIC_RELEASE);
		for (volatile uint64_t turn = 0; turn < idle_turns; turn = turn + 1)
			;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uintptr_t threads = argc > 4 ? strtoul(argv[2], NULL, 10) : 0;
	pthread_t started[64];
	int file;

	if (threads == 0 || threads > 64) {
		fprintf(stderr, "progress FILE THREADS EVENTS IDLE\n");
		return 2;
	}
	events = strtoull(argv[3], NULL, 10);
	idle_turns = strtoull(argv[4], NULL, 10);
	fixed = argc > 5;
	file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 64 * sizeof(*returned)) != 0)
		return 1;
	returned = (uint64_t *)mmap(NULL, 64 * sizeof(*returned), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (returned == MAP_FAILED)
		return 1;
	for (uintptr_t thread = 0; thread < threads; thread++)
		if (pthread_create(&started[thread], NULL, work, (void *)thread) != 0)
			return 1;
	for (uintptr_t thread = 0; thread < threads; thread++)
		pthread_join(started[thread], NULL);
	return 0;
}
