/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Everything that can happen to the C side at once, for the sanitizers: threads that record events of every kind, end and are
 * cancelled; a timer signal whose handler records; children by fork that record; libraries with events of their own, opened and closed
 * meanwhile; formatted events. Checks no values (other tests do): it must end well, and every event must be counted.
 *
 *     stress MILLISECONDS PLUGIN.so [without-children]
 *
 * Prints how often it called piste(), in itself and in its children.
 */
#include <piste/tracepoint.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREAD_COUNT       4
#define SIGNAL_INTERVAL_US 100
#define LONG_TEXT_BYTES    20000
#define BURST_ROUNDS       32 /* Then a pause: the trace should not fill a disk. */

enum color { RED, GREEN, BLUE };

PISTE_EVENT(stress, nothing)
PISTE_EVENT(stress, scalars, (bool, flag), (char, letter), (int8_t, i8), (uint8_t, u8), (int16_t, i16), (uint16_t, u16),
            (int32_t, i32), (uint32_t, u32), (int64_t, i64), (uint64_t, u64), (float, f32), (double, f64),
            (void *, address), PISTE_HEX(uint32_t, mask))
PISTE_EVENT(stress, texts, (const char *, string), PISTE_TEXT(text), (const char *, missing))
PISTE_EVENT(stress, lists, PISTE_ARRAY(uint16_t, array, 4), PISTE_SEQUENCE(double, sequence),
            PISTE_ENUM(color, (RED, 0), (GREEN, 1), (BLUE, 2)))
PISTE_EVENT_LEVEL(stress, handler, WARNING, (int, signal))
PISTE_EVENT(stress, child, (int, number))

/* Longer than the smallest sub-buffers, filled by main(). */
static char long_text[LONG_TEXT_BYTES + 1];

/* Shared with the children. */
static uint64_t *emitted;
static int stopping;

/* A sanitizer's allocator does not survive a fork that finds it locked. So nobody forks before every thread has begun, and the lock is
 * held while a thread allocates, and over fork. */
static pthread_barrier_t begun;
static pthread_mutex_t allocation = PTHREAD_MUTEX_INITIALIZER;

static void count(uint64_t calls)
{
	__atomic_fetch_add(emitted, calls, __ATOMIC_RELAXED);
}

static bool stops(void)
{
	return __atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void handle(int signal)
{
	int saved_errno = errno;

	piste(stress, handler, signal);
	count(1);
	errno = saved_errno;
}

static void record_every_kind(uint64_t round)
{
	const uint16_t array[4] = {1, 2, 3, (uint16_t)round};
	const double sequence[] = {0.5, -0.5, (double)round};
	char text[32];

	memset(text, 'a' + (int)(round % 26), sizeof(text));
	piste(stress, nothing);
	piste(stress, scalars, round & 1, 'x', -8, 8, -16, 16, -32, 32, -64, round, 1.5f, 2.5, text, 0xff);
	piste(stress, texts, round % 64 ? "short" : long_text, text, round % sizeof(text), NULL);
	piste(stress, lists, array, sequence, round % 4, (int32_t)(round % 3));
	piste_printf("round %lu of thread %p, %.*s", (unsigned long)round, (void *)pthread_self(),
	             (int)(round % sizeof(text)), text);
	piste_log(ERR, "round %lu, and this is bad", (unsigned long)round);
	count(6);
}

static void *record_until_stopped(void *unused)
{
	const struct timespec a_while = {0, 1000000};

	(void)unused;
	pthread_barrier_wait(&begun);
	for (uint64_t round = 0; !stops(); round++) {
		record_every_kind(round);
		if (round % BURST_ROUNDS == 0)
			nanosleep(&a_while, NULL);
	}
	return NULL;
}

static void *record_until_cancelled(void *unused)
{
	const struct timespec a_while = {0, 1000000};

	(void)unused;
	for (uint64_t round = 0;; round++) {
		record_every_kind(round);
		if (round % BURST_ROUNDS == 0)
			nanosleep(&a_while, NULL);
		pthread_testcancel();
	}
	return NULL;
}

static void *start_and_cancel_threads(void *unused)
{
	const struct timespec a_while = {0, 2000000};

	(void)unused;
	pthread_barrier_wait(&begun);
	while (!stops()) {
		pthread_t thread;

		pthread_mutex_lock(&allocation);
		if (pthread_create(&thread, NULL, record_until_cancelled, NULL) != 0)
			abort();
		nanosleep(&a_while, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		pthread_mutex_unlock(&allocation);
		nanosleep(&a_while, NULL);
	}
	return NULL;
}

static void *open_and_close_plugin(void *path)
{
	const struct timespec a_while = {0, 1000000};

	pthread_barrier_wait(&begun);
	while (!stops()) {
		uint64_t (*record)(void);
		void *plugin;

		pthread_mutex_lock(&allocation);
		plugin = dlopen(path, RTLD_NOW);

		if (!plugin) {
			fprintf(stderr, "stress: %s\n", dlerror());
			abort();
		}
		*(void **)&record = dlsym(plugin, "plugin_record");
		count(record());
		dlclose(plugin);
		pthread_mutex_unlock(&allocation);
		nanosleep(&a_while, NULL);
	}
	return NULL;
}

/* A child is a program of its own, with the handler and without the other threads. */
static void record_in_a_child(void)
{
	pid_t child;

	pthread_mutex_lock(&allocation);
	child = fork();
	if (child != 0)
		pthread_mutex_unlock(&allocation);
	if (child < 0)
		abort();
	if (child == 0) {
		for (int number = 0; number < 1000; number++)
			piste(stress, child, number);
		count(1000);
		_exit(0);
	}
	for (;;) {
		int status;

		if (waitpid(child, &status, 0) == child) {
			if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
				fprintf(stderr, "stress: a child ended with status %#x\n", (unsigned int)status);
				abort();
			}
			return;
		}
		if (errno != EINTR)
			abort();
	}
}

int main(int argument_count, char **arguments)
{
	struct itimerval storm = {{0, SIGNAL_INTERVAL_US}, {0, SIGNAL_INTERVAL_US}}, calm = {{0, 0}, {0, 0}};
	struct sigaction action;
	pthread_t threads[THREAD_COUNT], canceller, loader;
	const struct timespec a_while = {0, 1000000};
	bool with_children = argument_count == 3;
	uint64_t end_ms;

	if (argument_count < 3) {
		fprintf(stderr, "usage: stress MILLISECONDS PLUGIN.so [without-children]\n");
		return 2;
	}
	emitted = mmap(NULL, sizeof(*emitted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (emitted == MAP_FAILED)
		abort();
	memset(long_text, 'l', LONG_TEXT_BYTES);
	memset(&action, 0, sizeof(action));
	action.sa_handler = handle;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	pthread_barrier_init(&begun, NULL, THREAD_COUNT + 3);
	for (int index = 0; index < THREAD_COUNT; index++)
		if (pthread_create(&threads[index], NULL, record_until_stopped, NULL) != 0)
			abort();
	if (pthread_create(&canceller, NULL, start_and_cancel_threads, NULL) != 0 ||
	    pthread_create(&loader, NULL, open_and_close_plugin, arguments[2]) != 0)
		abort();
	pthread_barrier_wait(&begun);
	setitimer(ITIMER_REAL, &storm, NULL);
	for (end_ms = now_ms() + strtoul(arguments[1], NULL, 10); now_ms() < end_ms;) {
		if (with_children)
			record_in_a_child();
		else
			nanosleep(&a_while, NULL);
	}
	setitimer(ITIMER_REAL, &calm, NULL);
	__atomic_store_n(&stopping, 1, __ATOMIC_RELAXED);
	for (int index = 0; index < THREAD_COUNT; index++)
		pthread_join(threads[index], NULL);
	pthread_join(canceller, NULL);
	pthread_join(loader, NULL);
	printf("%lu\n", (unsigned long)*emitted);
	return 0;
}
