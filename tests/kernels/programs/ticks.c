// SPDX-License-Identifier: MIT OR Apache-2.0
/* ticks THREADS COUNT [kill]: each thread records COUNT events lab:tick. With `kill` the program then kills itself. */

#include <piste/tracepoint.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

PISTE_EVENT(lab, tick, (int32_t, thread), (int32_t, number))

#define THREADS_MAX 64

static int count;

static void *record(void *place)
{
	int thread = (int)(intptr_t)place;
	for (int number = 0; number < count; number++) {
		piste(lab, tick, thread, number);
		if (number % 1000 == 0)
			sched_yield();
	}
	return place;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0;
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	count = atoi(argv[2]);
	pthread_t ids[THREADS_MAX];
	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, record, (void *)i))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (argc > 3)
		kill(getpid(), SIGKILL);
	return 0;
}
