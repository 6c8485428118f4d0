/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Works in turns, from the event delays:begin to delays:end, until it is ended. Most turns are short; each twentieth takes milliseconds:
 *
 *     delays faults CPU  because it touches memory that is not there yet
 *     delays lock CPU    because it needs a mutex whose holder has a low priority and does not get the CPU, which a third thread has
 *
 * The threads are called `worker`, `holder` and `hog`. They run on that CPU, with real-time priorities, so that nothing else delays them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <piste/tracepoint.h>

PISTE_EVENT(delays, begin, (uint32_t, turn))
PISTE_EVENT(delays, end, (uint32_t, turn))

#define FAULTS_BYTES (64u << 20)
#define PAGE_BYTES   4096
#define HOG_NS       20000000
#define HOLDER_NS    1000000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t begin_holder, begin_hog, begin_worker;
static int cpu;

static int is_slow(uint32_t turn)
{
	return turn % 20 == 19;
}

static void pause_a_while(void)
{
	struct timespec pause = {.tv_nsec = 1000000};

	nanosleep(&pause, NULL);
}

static void touch_memory(void)
{
	char *memory = mmap(NULL, FAULTS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	/* Each page is to be a fault of its own. */
	madvise(memory, FAULTS_BYTES, MADV_NOHUGEPAGE);
	for (uint32_t byte = 0; byte < FAULTS_BYTES; byte += PAGE_BYTES)
		memory[byte] = 1;
	munmap(memory, FAULTS_BYTES);
}

static void *faults(void *nothing)
{
	for (uint32_t turn = 0;; turn++) {
		piste(delays, begin, turn);
		if (is_slow(turn))
			touch_memory();
		piste(delays, end, turn);
		pause_a_while();
	}
	return nothing;
}

static void compute(int64_t ns)
{
	struct timespec used;
	int64_t begin_ns = -1, now_ns;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
		now_ns = (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
		if (begin_ns < 0)
			begin_ns = now_ns;
	} while (now_ns < begin_ns + ns);
}

static void *worker(void *nothing)
{
	for (uint32_t turn = 0;; turn++) {
		if (is_slow(turn)) {
			sem_post(&begin_holder);
			sem_wait(&begin_worker);
		}
		piste(delays, begin, turn);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		piste(delays, end, turn);
		pause_a_while();
	}
	return nothing;
}

static void *holder(void *nothing)
{
	for (;;) {
		sem_wait(&begin_holder);
		pthread_mutex_lock(&mutex);
		/* The worker runs at once, up to the mutex; then the hog does. */
		sem_post(&begin_worker);
		sem_post(&begin_hog);
		compute(HOLDER_NS);
		pthread_mutex_unlock(&mutex);
	}
	return nothing;
}

static void *hog(void *nothing)
{
	for (;;) {
		sem_wait(&begin_hog);
		compute(HOG_NS);
	}
	return nothing;
}

static pthread_t start(void *(*function)(void *), const char *name, int priority)
{
	struct sched_param parameters = {.sched_priority = priority};
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &parameters);
	pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	if (pthread_create(&thread, &attributes, function, NULL) != 0) {
		fprintf(stderr, "delays: cannot start a thread with a real-time priority on CPU %d\n", cpu);
		exit(1);
	}
	pthread_setname_np(thread, name);
	return thread;
}

int main(int argument_count, char **arguments)
{
	if (argument_count == 3) {
		cpu = atoi(arguments[2]);
		if (strcmp(arguments[1], "faults") == 0)
			pthread_join(start(faults, "worker", 50), NULL);
		if (strcmp(arguments[1], "lock") == 0) {
			sem_init(&begin_holder, 0, 0);
			sem_init(&begin_worker, 0, 0);
			sem_init(&begin_hog, 0, 0);
			start(hog, "hog", 30);
			start(holder, "holder", 10);
			pthread_join(start(worker, "worker", 50), NULL);
		}
	}
	fprintf(stderr, "usage: delays faults|lock CPU\n");
	return 2;
}
