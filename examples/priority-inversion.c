// SPDX-License-Identifier: MIT OR Apache-2.0
/* Controls a machine: every 10 ms, a thread of high real-time priority reads the machine's state. A thread of low priority writes that state to a
 * log, with the same mutex, and a thread of a priority in between draws it. All of them have one CPU.
 *
 * The mutex does not lend its holder the priority of who waits for it; PTHREAD_PRIO_INHERIT would. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;

/* Uses so much CPU time, and looks at the clock now and then. */
static void compute(long ms)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do {
		for (volatile int turn = 0; turn < 100000; turn++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static void *control(void *unused)
{
	for (int round = 0; round < 150; round++) {
		usleep(10000);
		pthread_mutex_lock(&state);
		pthread_mutex_unlock(&state);
	}
	return unused;
}

static void *write_log(void *unused)
{
	for (int round = 0; round < 100; round++) {
		pthread_mutex_lock(&state);
		compute(8);
		pthread_mutex_unlock(&state);
		usleep(2000);
	}
	return unused;
}

static void *draw(void *unused)
{
	for (int round = 0; round < 15; round++) {
		usleep(55000);
		compute(40);
	}
	return unused;
}

static pthread_t start(const char *name, void *(*function)(void *), int priority)
{
	struct sched_param parameters = {.sched_priority = priority};
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &parameters);
	if (pthread_create(&thread, &attributes, function, NULL)) {
		fputs("real-time priorities are refused; run this as root\n", stderr);
		exit(77);
	}
	pthread_setname_np(thread, name);
	return thread;
}

/* The first CPU that this process may use, and no other. */
static void stay_on_one_cpu(void)
{
	cpu_set_t allowed, one;
	int cpu = 0;

	sched_getaffinity(0, sizeof allowed, &allowed);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

int main(void)
{
	stay_on_one_cpu();
	pthread_t threads[] = {start("log", write_log, 10), start("draw", draw, 20), start("control", control, 30)};
	for (int index = 0; index < 3; index++)
		pthread_join(threads[index], NULL);
}
