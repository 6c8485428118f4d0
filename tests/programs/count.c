/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* count THREADS EVENTS: each thread records so many events, numbered from 0. */
#include <piste/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

PISTE_EVENT(count, tick, (uint32_t, thread), (uint64_t, number))

static uint64_t events;
static pthread_barrier_t all_run;

static void *work(void *argument)
{
	uint32_t thread = (uint32_t)(uintptr_t)argument;

	pthread_barrier_wait(&all_run);
	for (uint64_t number = 0; number < events; number++)
		piste(count, tick, thread, number);
	return NULL;
}

int main(int argc, char **argv)
{
	uintptr_t threads = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	pthread_t *started = calloc(threads + 1, sizeof(*started));

	if (threads == 0 || !started) {
		fprintf(stderr, "count THREADS EVENTS\n");
		return 2;
	}
	events = strtoull(argv[2], NULL, 10);
	pthread_barrier_init(&all_run, NULL, (unsigned int)threads);
	for (uintptr_t thread = 0; thread < threads; thread++)
		if (pthread_create(&started[thread], NULL, work, (void *)thread) != 0)
			return 1;
	for (uintptr_t thread = 0; thread < threads; thread++)
		pthread_join(started[thread], NULL);
	free(started);
	return 0;
}
