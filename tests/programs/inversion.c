// SPDX-License-Identifier: MIT OR Apache-2.0
/* A priority inversion on one CPU: an urgent thread waits for a mutex that a thread of low priority holds, and one in between computes for
 * 100 ms. With the argument `inherit` the mutex gives its holder the priority of who waits. With `work` nobody waits for the mutex: the urgent
 * thread waits at a semaphore for what the thread of low priority sends it in the end, which is no inversion. The file `threads` in the working folder names
 * the three: victim, holder, culprit. Ends with status 77 where real-time priorities are refused. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex;
static sem_t is_ready, begin_victim, begin_holder, begin_culprit;
static long threads[3];
static int sends_work;

/* Uses the CPU for so many milliseconds, with few system calls. */
static void compute(long ms)
{
	struct timespec used;
	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	} while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < ms);
}

static void begin(int number, sem_t *at)
{
	threads[number] = syscall(SYS_gettid);
	sem_post(&is_ready);
	sem_wait(at);
}

static void *victim(void *nothing)
{
	begin(0, &begin_victim);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return nothing;
}

static void *holder(void *nothing)
{
	begin(1, &begin_holder);
	pthread_mutex_lock(&mutex);
	/* The victim runs at once, up to the lock. */
	if (!sends_work)
		sem_post(&begin_victim);
	/* The culprit runs at once, unless this thread is as urgent as the victim. */
	sem_post(&begin_culprit);
	compute(5);
	pthread_mutex_unlock(&mutex);
	if (sends_work)
		sem_post(&begin_victim);
	return nothing;
}

static void *culprit(void *nothing)
{
	begin(2, &begin_culprit);
	compute(100);
	return nothing;
}

static int start(pthread_t *thread, void *(*function)(void *), int priority)
{
	struct sched_param parameters = {.sched_priority = priority};
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &parameters);
	return pthread_create(thread, &attributes, function, NULL);
}

int main(int argc, char **argv)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return 1;
	int cpu = 0;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one))
		return 1;
	sends_work = argc > 1 && !strcmp(argv[1], "work");
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	if (argc > 1 && !strcmp(argv[1], "inherit"))
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&mutex, &attributes);
	sem_init(&is_ready, 0, 0);
	sem_init(&begin_victim, 0, 0);
	sem_init(&begin_holder, 0, 0);
	sem_init(&begin_culprit, 0, 0);
	pthread_t ids[3];
	if (start(&ids[0], victim, 90))
		return 77;
	if (start(&ids[1], holder, 10) || start(&ids[2], culprit, 50))
		return 1;
	for (int i = 0; i < 3; i++)
		sem_wait(&is_ready);
	FILE *file = fopen("threads", "w");
	if (!file)
		return 1;
	fprintf(file, "%ld\n%ld\n%ld\n", threads[0], threads[1], threads[2]);
	fclose(file);
	sem_post(&begin_holder);
	for (int i = 0; i < 3; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
