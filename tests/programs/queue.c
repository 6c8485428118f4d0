// SPDX-License-Identifier: MIT OR Apache-2.0
/* Threads that wait for their CPU, which they share with one that computes as long as they are there. They sleep or hand a byte to each
 * other, and compute a little after each. The file `threads` in the working folder names all but the main thread. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPERS = 2, PARTNERS = 2, WORKERS = SLEEPERS + PARTNERS, ROUNDS = 60 };

static int ends[PARTNERS][2];
static pthread_barrier_t all_are_there;
static atomic_int left = WORKERS;
static long threads[WORKERS + 1];

/* Uses its CPU for so long. */
static void compute(long us)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do {
		for (volatile int i = 0; i < 30000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void be_there(int number)
{
	threads[number] = syscall(SYS_gettid);
	pthread_barrier_wait(&all_are_there);
}

static void *worker(void *of)
{
	int number = (int)(long)of;
	be_there(number);
	for (int i = 0; i < ROUNDS; i++) {
		char byte = 'x';
		if (number < SLEEPERS) {
			struct timespec time = {.tv_nsec = 1000 * 1000};
			nanosleep(&time, NULL);
		} else {
			int own = number - SLEEPERS, other = 1 - own;
			if (write(ends[other][1], &byte, 1) != 1 || read(ends[own][0], &byte, 1) != 1)
				_exit(1);
		}
		compute(100);
	}
	left--;
	return NULL;
}

static void *busy(void *nothing)
{
	be_there(WORKERS);
	while (left)
		compute(500);
	return nothing;
}

int main(void)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return 1;
	int cpu = 0;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) || pipe(ends[0]) || pipe(ends[1]))
		return 1;
	pthread_barrier_init(&all_are_there, NULL, WORKERS + 1);
	pthread_t ids[WORKERS + 1];
	for (long i = 0; i <= WORKERS; i++)
		if (pthread_create(&ids[i], NULL, i < WORKERS ? worker : busy, (void *)i))
			return 1;
	for (int i = 0; i <= WORKERS; i++)
		pthread_join(ids[i], NULL);
	FILE *file = fopen("threads", "w");
	if (!file)
		return 1;
	for (int i = 0; i <= WORKERS; i++)
		fprintf(file, "%ld\n", threads[i]);
	return fclose(file) ? 1 : 0;
}
