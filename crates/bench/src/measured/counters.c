/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See counters.h. Each event of the processor is opened alone: where there are more than it can count at once, the kernel takes turns. */
#define _GNU_SOURCE
#include "counters.h"

#include "interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As much as the kernel returns at once. */
#define PIECE_BYTES 4096
#define CACHE(level, result)                                                                                           \
	(PERF_COUNT_HW_CACHE_##level | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_##result << 16)

static const char *const kernel_names[FIRST_OF_PERF] = {"preemptions", "waits", "page_faults", "interrupts"};

static const struct {
	const char *name;
	uint32_t type;
	uint64_t config;
} perf_events[] = {
        {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
        {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
        {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
        {"branch_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
        {"l1d_misses", PERF_TYPE_HW_CACHE, CACHE(L1D, MISS)},
        {"llc_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
        {"dtlb_misses", PERF_TYPE_HW_CACHE, CACHE(DTLB, MISS)},
        {"bus_cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
        {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

#define PERF_EVENT_COUNT (sizeof(perf_events) / sizeof(perf_events[0]))
_Static_assert(FIRST_OF_PERF + PERF_EVENT_COUNT <= COUNTER_COUNT_MAX, "there is room for all counters");

static struct counter_names all;
static bool without_kernel;
static uint32_t opened_events[PERF_EVENT_COUNT];

static int open_perf_event(uint32_t event)
{
	struct perf_event_attr attributes = {
	        .size = sizeof(attributes),
	        .type = perf_events[event].type,
	        .config = perf_events[event].config,
	        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	        .exclude_kernel = without_kernel,
	        .exclude_hv = without_kernel,
	};

	return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void find_perf_events(void)
{
	for (uint32_t event = 0; event < PERF_EVENT_COUNT; event++) {
		int file = open_perf_event(event);

		if (file < 0 && (errno == EACCES || errno == EPERM) && !without_kernel) {
			without_kernel = true;
			all.lack = "without what happens in the kernel (root can count that)";
			file = open_perf_event(event);
		}
		if (file >= 0) {
			close(file);
			opened_events[all.count - FIRST_OF_PERF] = event;
			all.names[all.count++] = perf_events[event].name;
		} else if (event == 0) {
			all.lack = errno == EACCES || errno == EPERM
			                   ? "not allowed here (see kernel.perf_event_paranoid)"
			                   : "the kernel has no counters of the processor (a virtual machine often has "
			                     "none)";
		}
	}
}

void find_counters(void)
{
	for (uint32_t index = 0; index < FIRST_OF_PERF; index++)
		all.names[all.count++] = kernel_names[index];
	find_perf_events();
}

void open_counters(struct counters *counters, int cpu)
{
	counters->cpu = cpu;
	counters->interrupts_file = open("/proc/interrupts", O_RDONLY | O_CLOEXEC);
	for (uint32_t index = FIRST_OF_PERF; index < all.count; index++)
		counters->perf_files[index] = open_perf_event(opened_events[index - FIRST_OF_PERF]);
}

const struct counter_names *counter_names(void)
{
	return &all;
}

static uint64_t count_interrupts(const struct counters *counters)
{
	struct interrupts text = interrupts_of((uint32_t)counters->cpu);
	char piece[PIECE_BYTES];
	off_t place = 0;
	ssize_t got;

	while ((got = pread(counters->interrupts_file, piece, sizeof(piece), place)) > 0) {
		add_interrupts(&text, piece, (size_t)got);
		place += got;
	}
	return text.sum;
}

static void set_kernel_count(struct counts *counts, uint32_t index, uint64_t value)
{
	counts->of[index] = (struct count){.value = value};
}

void read_kernel_counters(const struct counters *counters, struct counts *counts)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	set_kernel_count(counts, PREEMPTIONS, (uint64_t)usage.ru_nivcsw);
	set_kernel_count(counts, WAITS, (uint64_t)usage.ru_nvcsw);
	set_kernel_count(counts, PAGE_FAULTS, (uint64_t)(usage.ru_minflt + usage.ru_majflt));
	set_kernel_count(counts, INTERRUPTS, count_interrupts(counters));
}

void read_perf_counters(const struct counters *counters, struct counts *counts)
{
	for (uint32_t index = FIRST_OF_PERF; index < all.count; index++) {
		struct count *count = &counts->of[index];

		/* A file that cannot be read did not count. */
		if (read(counters->perf_files[index], count, sizeof(*count)) != sizeof(*count))
			*count = (struct count){.enabled_ns = 1};
	}
}

bool counted_between(const struct count *before, const struct count *after, double *count)
{
	uint64_t enabled_ns = after->enabled_ns - before->enabled_ns,
	         running_ns = after->running_ns - before->running_ns;

	*count = (double)(after->value - before->value);
	/* The kernel's own, which are always counted. */
	if (after->enabled_ns == 0)
		return true;
	if (running_ns == 0)
		return false;
	*count *= (double)enabled_ns / (double)running_ns;
	return true;
}

bool is_interrupted(const struct counts *before, const struct counts *after)
{
	return after->of[PREEMPTIONS].value != before->of[PREEMPTIONS].value ||
	       after->of[INTERRUPTS].value != before->of[INTERRUPTS].value;
}
