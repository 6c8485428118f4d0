/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rounds and samples on request: see rounds.h. CPU time is that of the thread, so that a machine with other work stretches it less than the wall
 * time.
 */
#define _GNU_SOURCE
#include "rounds.h"

#include "counters.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define THREAD_COUNT_MAX     64
#define REQUEST_BYTES_MAX    256
#define SAMPLE_COUNT_MAX     1000000
#define TYPICAL_SAMPLES      64
#define FREQUENCY_READING_NS 50000000u
/* A switch or an interrupt takes longer. */
#define INTERRUPTED_NS_MIN 1000u

struct measured {
	uint64_t cpu_ns;
	uint64_t wall_ns;
	struct counts before, after;
};

/* The round that all threads run; the first thread sets it between `end` and `begin`. */
static struct {
	const struct variant *variant;
	uint64_t warm_up;
	uint64_t count;
	bool counts_events;
} current;

/* What all threads of all processes share that record at the same time. */
struct meeting {
	pthread_barrier_t begin, warmed_up, end;
	/* Threads that have read their counters for the round, since the first round. */
	atomic_uint_fast64_t ready_count;
};

static struct meeting own_meeting, *meeting = &own_meeting;
static uint32_t thread_count, process_count = 1;
static struct measured measured[THREAD_COUNT_MAX];
static struct counters counters[THREAD_COUNT_MAX];

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* To the index-th of the CPUs that the program may use. Returns the CPU; ends the program if there are fewer. */
static int pin(uint32_t index)
{
	cpu_set_t allowed, one;
	uint32_t skip = index;

	CPU_ZERO(&allowed);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		perror("cannot find out which CPUs this program may use");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return cpu;
	}
	fprintf(stderr, "there is no CPU for thread %u: this program may use %d\n", index + 1, CPU_COUNT(&allowed));
	exit(1);
}

/* ---- Rounds ---- */

/* Waits for the other threads without sleeping: a switch would be counted, and the time until a thread is woken differs. */
static void wait_until_all_are_ready(uint64_t of)
{
	/* ORDER none: nothing else is published. */
	atomic_fetch_add_explicit(&meeting->ready_count, 1, memory_order_relaxed);
	while (atomic_load_explicit(&meeting->ready_count, memory_order_relaxed) < of)
		;
}

static void run_round(uint32_t thread, uint64_t number)
{
	struct measured *own = &measured[thread];
	uint64_t cpu_ns, wall_ns;

	pthread_barrier_wait(&meeting->begin);
	current.variant->record(0, current.warm_up);
	pthread_barrier_wait(&meeting->warmed_up);
	read_kernel_counters(&counters[thread], &own->before);
	wait_until_all_are_ready(number * thread_count * process_count);
	if (current.counts_events)
		read_perf_counters(&counters[thread], &own->before);
	wall_ns = nanoseconds(CLOCK_MONOTONIC);
	cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	current.variant->record(0, current.count);
	own->cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	own->wall_ns = nanoseconds(CLOCK_MONOTONIC) - wall_ns;
	if (current.counts_events)
		read_perf_counters(&counters[thread], &own->after);
	read_kernel_counters(&counters[thread], &own->after);
	pthread_barrier_wait(&meeting->end);
}

static void *help(void *argument)
{
	uint32_t thread = (uint32_t)(uintptr_t)argument;

	open_counters(&counters[thread], pin(thread));
	for (uint64_t number = 1;; number++)
		run_round(thread, number);
	return NULL;
}

/* Of all threads. Returns false if one of them does not know it. */
static bool sum_of(uint32_t counter, double *sum)
{
	*sum = 0;
	for (uint32_t thread = 0; thread < thread_count; thread++) {
		double count;

		if (!counted_between(&measured[thread].before.of[counter], &measured[thread].after.of[counter], &count))
			return false;
		*sum += count;
	}
	return true;
}

static void report(void)
{
	const struct counter_names *names = counter_names();
	uint32_t counter_count = current.counts_events ? names->count : FIRST_OF_PERF;
	uint64_t cpu_ns = 0, wall_ns = 0;
	double sum;

	for (uint32_t thread = 0; thread < thread_count; thread++) {
		cpu_ns += measured[thread].cpu_ns;
		wall_ns += measured[thread].wall_ns;
	}
	printf("%llu %llu", (unsigned long long)(cpu_ns / thread_count), (unsigned long long)(wall_ns / thread_count));
	for (uint32_t counter = 0; counter < counter_count; counter++)
		if (sum_of(counter, &sum))
			printf(" %s=%.0f", names->names[counter], sum);
	printf("\n");
}

/* ---- Samples ---- */

/* The clock around one event. Nothing before it is still under way, and nothing behind it has begun (Intel's "How to Benchmark Code Execution
 * Times", 2010). */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	uint64_t value;

	_mm_lfence();
	value = __rdtsc();
	_mm_lfence();
	return value;
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(value)::"memory");
	return value;
#else
	return nanoseconds(CLOCK_MONOTONIC);
#endif
}

/* Of the clock of samples, in a second. Takes a while, once. */
static double frequency_hz(void)
{
	static double known;
	uint64_t first_ns, first, ns;

	if (known > 0)
		return known;
	first_ns = nanoseconds(CLOCK_MONOTONIC);
	first = ticks();
	do
		ns = nanoseconds(CLOCK_MONOTONIC) - first_ns;
	while (ns < FREQUENCY_READING_NS);
	known = (double)(ticks() - first) * 1e9 / (double)ns;
	return known;
}

static inline uint64_t sample(const struct variant *variant, uint64_t event)
{
	uint64_t before = ticks();

	variant->record(event, 1);
	return ticks() - before;
}

static int ascending(const void *one, const void *other)
{
	uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;

	return (left > right) - (left < right);
}

/* From this length on, it is worth asking the kernel what happened. */
static uint64_t long_ticks(const struct variant *variant)
{
	uint64_t typical[TYPICAL_SAMPLES], least = (uint64_t)(INTERRUPTED_NS_MIN * frequency_hz() / 1e9);

	for (uint32_t index = 0; index < TYPICAL_SAMPLES; index++)
		typical[index] = sample(variant, index);
	qsort(typical, TYPICAL_SAMPLES, sizeof(typical[0]), ascending);
	return 2 * typical[TYPICAL_SAMPLES / 2] > least ? 2 * typical[TYPICAL_SAMPLES / 2] : least;
}

static int take_samples(const struct variant *variant, uint64_t warm_up, uint64_t count)
{
	uint64_t *taken = calloc(count, sizeof(*taken)), worth_asking;
	uint8_t *interrupted = calloc(count, 1);
	struct counts before = {0}, after = {0};
	double tick_ns = 1e9 / frequency_hz();

	if (!taken || !interrupted)
		return 1;
	memset(taken, 1, count * sizeof(*taken));
	memset(interrupted, 1, count);
	variant->record(0, warm_up);
	worth_asking = long_ticks(variant);
	read_kernel_counters(&counters[0], &before);
	for (uint64_t index = 0; index < count; index++) {
		taken[index] = sample(variant, index);
		interrupted[index] = 0;
		if (taken[index] >= worth_asking) {
			read_kernel_counters(&counters[0], &after);
			interrupted[index] = is_interrupted(&before, &after);
			before = after;
		}
	}
	for (uint64_t index = 0; index < count; index++)
		printf("%s%.1f%s", index > 0 ? " " : "", (double)taken[index] * tick_ns, interrupted[index] ? "!" : "");
	printf("\n");
	free(taken);
	free(interrupted);
	return 0;
}

/* ---- Requests ---- */

static void tell_about(void)
{
	const struct counter_names *names = counter_names();

	printf("%.0f", frequency_hz());
	for (uint32_t index = 0; index < names->count; index++)
		printf(" %s", names->names[index]);
	if (names->lack)
		printf(" - %s", names->lack);
	printf("\n");
}

static const struct variant *find(const struct variant *variants, uint32_t variant_count, const char *name)
{
	for (uint32_t index = 0; index < variant_count; index++)
		if (strcmp(variants[index].name, name) == 0)
			return &variants[index];
	return NULL;
}

static int serve(const char *request, const struct variant *variants, uint32_t variant_count)
{
	static uint64_t round_count;
	unsigned long long warm_up, count;
	char verb[16], name[64];
	int status = 0;

	if (sscanf(request, "%15s %63s %llu %llu", verb, name, &warm_up, &count) != 4) {
		tell_about();
		return fflush(stdout);
	}
	current.variant = find(variants, variant_count, name);
	if (!current.variant) {
		fprintf(stderr, "no variant '%s'\n", name);
		return 2;
	}
	current.warm_up = warm_up;
	current.count = count;
	current.counts_events = strcmp(verb, "round") == 0;
	if (current.counts_events || strcmp(verb, "timed") == 0) {
		run_round(0, ++round_count);
		report();
	} else if (strcmp(verb, "samples") == 0 && count <= SAMPLE_COUNT_MAX) {
		status = take_samples(current.variant, warm_up, count);
	} else {
		fprintf(stderr, "cannot do '%s'\n", request);
		status = 2;
	}
	return fflush(stdout) == 0 ? status : 1;
}

/* In a file that other processes map, too. */
static bool meet_in(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);
	void *shared;

	if (file < 0 || ftruncate(file, sizeof(*meeting)) != 0)
		return false;
	shared = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (shared == MAP_FAILED)
		return false;
	meeting = shared;
	return true;
}

static void begin_meeting(void)
{
	pthread_barrier_t *barriers[] = {&meeting->begin, &meeting->warmed_up, &meeting->end};
	pthread_barrierattr_t attributes;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	for (uint32_t index = 0; index < 3; index++)
		pthread_barrier_init(barriers[index], &attributes, thread_count * process_count);
	pthread_barrierattr_destroy(&attributes);
}

int serve_rounds(int argument_count, char **arguments, const struct variant *variants, uint32_t variant_count)
{
	long threads = argument_count > 1 ? atol(arguments[1]) : 1;
	uint32_t process = 0;
	char request[REQUEST_BYTES_MAX];

	if (threads < 1 || threads > THREAD_COUNT_MAX) {
		fprintf(stderr, "%s: 1 to %d threads, not %ld\n", arguments[0], THREAD_COUNT_MAX, threads);
		return 2;
	}
	thread_count = (uint32_t)threads;
	if (argument_count == 5) {
		process = (uint32_t)atol(arguments[3]);
		process_count = (uint32_t)atol(arguments[4]);
		if (!meet_in(arguments[2])) {
			perror(arguments[2]);
			return 1;
		}
	}
	if (process == 0)
		begin_meeting();
	find_counters();
	for (long thread = 1; thread < threads; thread++) {
		pthread_t helper;

		if (pthread_create(&helper, NULL, help, (void *)thread) != 0) {
			fprintf(stderr, "%s: cannot start a thread\n", arguments[0]);
			return 1;
		}
	}
	/* After the others have started, which would inherit its CPU. Each round waits for all of them. */
	open_counters(&counters[0], pin(process));
	while (fgets(request, sizeof(request), stdin)) {
		int status = serve(request, variants, variant_count);

		if (status != 0)
			return status;
	}
	return 0;
}
