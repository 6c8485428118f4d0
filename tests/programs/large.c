/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * large THREADS COUNT: each thread records COUNT events of many sizes, some of them too large for the memory that a call has for filters,
 * while a signal handler that interrupts it does the same. Prints how many of all numbers end with the bits 011.
 */
#define _GNU_SOURCE
#include <piste/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

PISTE_EVENT(large, event, (uint32_t, number), PISTE_TEXT(text), (const char *, end))

#define TEXT_BYTES_MAX 100000

static char text[TEXT_BYTES_MAX];
static uint64_t wanted;
static int count;

static void record(uint32_t number)
{
	static const size_t bytes[] = {0, 10, 200, 300, 5000, 70000, TEXT_BYTES_MAX};

	piste(large, event, number, text, bytes[number % 61 < 7 ? number % 61 : number % 4], "the end");
	if ((number & 7) == 3)
		__atomic_fetch_add(&wanted, 1, __ATOMIC_RELAXED);
}

static void on_signal(int signal)
{
	static uint32_t number;

	(void)signal;
	record(__atomic_fetch_add(&number, 1, __ATOMIC_RELAXED));
}

static void *work(void *unused)
{
	(void)unused;
	for (int index = 0; index < count; index++)
		record((uint32_t)index);
	return NULL;
}

int main(int argc, char **argv)
{
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	int thread_count = argc > 1 ? atoi(argv[1]) : 1;
	struct sigaction action = {0};
	pthread_t threads[64];

	count = argc > 2 ? atoi(argv[2]) : 1;
	memset(text, 'x', sizeof(text));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int index = 0; index < thread_count && index < 64; index++)
		pthread_create(&threads[index], NULL, work, NULL);
	for (int index = 0; index < thread_count && index < 64; index++)
		pthread_join(threads[index], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%llu\n", (unsigned long long)wanted);
	return 0;
}
