/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cancels HOW THREADS: one thread after the other records and dies wherever it is, also in the middle of a record: cancelled
 * asynchronously, or by pthread_exit() in a signal handler. Then the main thread records 1000 events as thread THREADS. Prints for each
 * thread how many of its calls had returned.
 */
#include <piste/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

PISTE_EVENT(cancel, tick, (uint32_t, thread), (uint64_t, number))

static uint64_t returned;
static uint32_t thread_number;

static void *work(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (uint64_t number = 0;; number++) {
		piste(cancel, tick, thread_number, number);
		__atomic_store_n(&returned, number + 1, __ATOMIC_RELEASE);
	}
	return unused;
}

static void leave(int signal)
{
	(void)signal;
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	bool by_handler = argc > 1 && strcmp(argv[1], "handler") == 0;
	uint32_t threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
	struct sigaction action = {0};

	action.sa_handler = leave;
	sigaction(SIGUSR1, &action, NULL);
	for (thread_number = 0; thread_number < threads; thread_number++) {
		pthread_t thread;

		__atomic_store_n(&returned, 0, __ATOMIC_RELEASE);
		if (pthread_create(&thread, NULL, work, NULL) != 0)
			return 1;
		while (__atomic_load_n(&returned, __ATOMIC_ACQUIRE) < 50 + thread_number)
			;
		if (by_handler)
			pthread_kill(thread, SIGUSR1);
		else
			pthread_cancel(thread);
		pthread_join(thread, NULL);
		printf("%llu\n", (unsigned long long)returned);
	}
	for (uint64_t number = 0; number < 1000; number++)
		piste(cancel, tick, thread_number, number);
	printf("1000\n");
	return 0;
}
