/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel counts for a thread while it runs a round: switches, page faults, interrupts of its CPU, and the events of the processor
 * where there is a unit that counts them (perf_event_open(2)).
 */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#define COUNTER_COUNT_MAX 16

/* The kernel's own come first. */
enum { PREEMPTIONS, WAITS, PAGE_FAULTS, INTERRUPTS, FIRST_OF_PERF };

/* Names of all counters; what cannot be counted here has no entry. */
struct counter_names {
	uint32_t count;
	const char *names[COUNTER_COUNT_MAX];
	/* Why the processor's events are missing, or limited; NULL if they are all there. */
	const char *lack;
};

/* Those of a thread. */
struct counters {
	int perf_files[COUNTER_COUNT_MAX];
	int interrupts_file;
	int cpu;
};

/* What a counter says. If the processor has too few counters for all events, the kernel counts them in turn: it counted for `running_ns` of
 * `enabled_ns`. */
struct count {
	uint64_t value;
	uint64_t enabled_ns;
	uint64_t running_ns;
};

struct counts {
	struct count of[COUNTER_COUNT_MAX];
};

/* Finds out what can be counted here. Called once, before there are other threads. */
void find_counters(void);
const struct counter_names *counter_names(void);
/* Of this thread, which stays on its CPU. */
void open_counters(struct counters *counters, int cpu);
/* Reads the kernel's own counts, which takes tens of microseconds. */
void read_kernel_counters(const struct counters *counters, struct counts *counts);
/* Reads those of the processor, which takes about a microsecond each. */
void read_perf_counters(const struct counters *counters, struct counts *counts);
/* What was counted between two readings, extrapolated to the whole time. Returns false if the kernel did not count in between. */
bool counted_between(const struct count *before, const struct count *after, double *count);
/* Whether something else had the thread's CPU between two readings: another thread, or an interrupt. */
bool is_interrupted(const struct counts *before, const struct counts *after);

#endif
