// SPDX-License-Identifier: MIT OR Apache-2.0
/* A lock convoy: four threads take one mutex in turn, and each has it for 50 microseconds at a time. The mutex is a static variable, or on the
 * heap with the argument `heap`. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 4
#define TURNS   2000
#define HELD_NS 50000

static pthread_mutex_t till_lock = PTHREAD_MUTEX_INITIALIZER;
static long sold;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static __attribute__((noinline)) void serve(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	for (long begin = now_ns(); now_ns() - begin < HELD_NS;)
		sold++;
	pthread_mutex_unlock(lock);
}

static void *sell(void *lock)
{
	for (int turn = 0; turn < TURNS; turn++)
		serve(lock);
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t sellers[THREADS];
	pthread_mutex_t *lock = &till_lock;

	if (count > 1 && strcmp(arguments[1], "heap") == 0) {
		lock = malloc(sizeof(*lock));
		pthread_mutex_init(lock, NULL);
	}
	for (int index = 0; index < THREADS; index++)
		pthread_create(&sellers[index], NULL, sell, lock);
	for (int index = 0; index < THREADS; index++)
		pthread_join(sellers[index], NULL);
	return sold == 0;
}
