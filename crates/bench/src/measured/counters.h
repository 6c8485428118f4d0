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
	/* In /proc/interrupts: the column of the thread's CPU, and how many columns there are. */
	uint32_t column, column_count;
};

struct counts {
	double values[COUNTER_COUNT_MAX];
};

/* Finds out what can be counted here. Called once, before there are other threads. */
void find_counters(void);
const struct counter_names *counter_names(void);
/* Of this thread, which stays on its CPU. */
void open_counters(struct counters *counters, int cpu);
/* The kernel's own counts, and those of the processor. The first take tens of microseconds, so what is measured is between two readings of the second. */
void read_kernel_counters(const struct counters *counters, struct counts *counts);
void read_perf_counters(const struct counters *counters, struct counts *counts);
/* Whether something else had the thread's CPU between two readings: another thread, or an interrupt. */
bool is_interrupted(const struct counts *before, const struct counts *after);

#endif
