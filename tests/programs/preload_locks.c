/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * preload_locks THREADS TIMES: mutexes, condition variables and read-write locks, taken and waited for in every way. Prints the addresses of
 * those that are counted. Has no events of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static const struct timespec past = {1, 0};
static unsigned long times, turns;
static sem_t begun;

static void expect(int status, int expected)
{
	if (status != expected) {
		fprintf(stderr, "status %d instead of %d\n", status, expected);
		exit(1);
	}
}

static void *work(void *unused)
{
	for (unsigned long turn = 0; turn < times; turn++) {
		expect(pthread_mutex_lock(&mutex), 0);
		turns++;
		expect(pthread_mutex_unlock(&mutex), 0);
		expect(pthread_rwlock_rdlock(&rwlock), 0);
		expect(pthread_rwlock_unlock(&rwlock), 0);
		expect(pthread_rwlock_wrlock(&rwlock), 0);
		expect(pthread_rwlock_unlock(&rwlock), 0);
	}
	return unused;
}

static void unlock(void *locked)
{
	expect(pthread_mutex_unlock(locked), 0);
}

/* Waits until it is cancelled, which takes the mutex again and leaves it to the clean-up. */
static void *wait_for_ever(void *unused)
{
	pthread_mutex_lock(&held);
	pthread_cleanup_push(unlock, &held);
	sem_post(&begun);
	for (;;)
		pthread_cond_wait(&cond, &held);
	pthread_cleanup_pop(1);
	return unused;
}

/* What fails, with the mutex held by ourselves. */
static void fail_in_every_way(void)
{
	expect(pthread_mutex_lock(&held), 0);
	expect(pthread_mutex_trylock(&held), EBUSY);
	expect(pthread_mutex_timedlock(&held, &past), ETIMEDOUT);
	expect(pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &past), ETIMEDOUT);
	expect(pthread_cond_timedwait(&cond, &held, &past), ETIMEDOUT);
	expect(pthread_cond_clockwait(&cond, &held, CLOCK_MONOTONIC, &past), ETIMEDOUT);
	expect(pthread_mutex_unlock(&held), 0);
	expect(pthread_rwlock_rdlock(&rwlock), 0);
	expect(pthread_rwlock_tryrdlock(&rwlock), 0);
	expect(pthread_rwlock_trywrlock(&rwlock), EBUSY);
	expect(pthread_rwlock_timedwrlock(&rwlock, &past), ETIMEDOUT);
	expect(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &past), ETIMEDOUT);
	expect(pthread_rwlock_timedrdlock(&rwlock, &past), 0);
	expect(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &past), 0);
	for (int turn = 0; turn < 4; turn++)
		expect(pthread_rwlock_unlock(&rwlock), 0);
}

static void cancel_a_wait(void)
{
	pthread_t thread;

	expect(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
	sem_wait(&begun);
	/* Once the mutex is free, the thread waits. */
	expect(pthread_mutex_lock(&held), 0);
	expect(pthread_mutex_unlock(&held), 0);
	expect(pthread_cond_signal(&cond), 0);
	expect(pthread_cond_broadcast(&cond), 0);
	expect(pthread_cancel(thread), 0);
	expect(pthread_join(thread, NULL), 0);
	/* The clean-up gave it back. */
	expect(pthread_mutex_trylock(&held), 0);
	expect(pthread_mutex_unlock(&held), 0);
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 2 ? strtoul(argv[1], NULL, 10) % 65 : 1;
	pthread_t threads[64];

	times = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	printf("%p %p %p %p\n", (void *)&mutex, (void *)&held, (void *)&cond, (void *)&rwlock);
	for (unsigned long index = 0; index < count; index++)
		expect(pthread_create(&threads[index], NULL, work, NULL), 0);
	for (unsigned long index = 0; index < count; index++)
		pthread_join(threads[index], NULL);
	sem_init(&begun, 0, 0);
	fail_in_every_way();
	cancel_a_wait();
	return turns == count * times ? 0 : 1;
}
