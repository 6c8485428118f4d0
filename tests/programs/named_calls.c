// SPDX-License-Identifier: MIT OR Apache-2.0
/* named_calls COUNT: each of two threads asks COUNT times whether a path exists that says which thread and which question it is, as fast as it
 * can. The question's mode says the same as the path, and the threads move from CPU to CPU. Waits for a line before it begins, then prints how many
 * microseconds that took, and waits for a line before it ends. */

#define _GNU_SOURCE

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define MODES   8
/* Calls between two moves. */
#define STEP 1000

static int count;

static void *ask(void *number)
{
	int thread = (int)(long)number, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	char path[64];

	for (int call = 0; call < count; call++) {
		if (call % STEP == 0) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET((thread + call / STEP) % cpus, &set);
			sched_setaffinity(0, sizeof set, &set);
		}
		snprintf(path, sizeof path, "/none/%d/%d", thread, call);
		access(path, call % MODES);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct timespec begin, end;
	char line[16];

	count = argc > 1 ? atoi(argv[1]) : 1000;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long number = 0; number < THREADS; number++)
		if (pthread_create(&threads[number], NULL, ask, (void *)number) != 0)
			return 1;
	for (int number = 0; number < THREADS; number++)
		pthread_join(threads[number], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000LL + (end.tv_nsec - begin.tv_nsec) / 1000);
	fflush(stdout);
	return fgets(line, sizeof line, stdin) ? 0 : 1;
}
