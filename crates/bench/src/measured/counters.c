/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See counters.h. Each event of the processor is opened alone: where there are more than it can count at once, the kernel takes turns, and says for
 * how long each was counted. */
#define _GNU_SOURCE
#include "counters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INTERRUPTS_BYTES_MAX (256u << 10)
#define CACHE(level, result)                                                                                           \
	(PERF_COUNT_HW_CACHE_##level | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_##result << 16)

/* The kernel's own come first, in the order of `struct counts`. */
enum { INVOLUNTARY_SWITCHES, VOLUNTARY_SWITCHES, PAGE_FAULTS, INTERRUPTS, FIRST_OF_PERF };

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
static __thread char interrupts_text[INTERRUPTS_BYTES_MAX];

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

static uint32_t columns_of(char *heading)
{
	uint32_t count = 0;

	for (char *word = strtok(heading, " \n"); word; word = strtok(NULL, " \n"))
		count += strncmp(word, "CPU", 3) == 0;
	return count;
}

/* Where the CPU's counts are. The columns are those of the CPUs that are online. */
static void find_column(struct counters *counters, int cpu)
{
	char heading[64 << 10], name[32], *place;
	ssize_t bytes = pread(counters->interrupts_file, heading, sizeof(heading) - 1, 0);

	if (bytes <= 0)
		return;
	heading[bytes] = 0;
	heading[strcspn(heading, "\n")] = 0;
	snprintf(name, sizeof(name), "CPU%d ", cpu);
	strcat(heading, " ");
	place = strstr(heading, name);
	if (!place)
		return;
	*place = 0;
	counters->column = columns_of(heading);
	*place = 'C';
	counters->column_count = columns_of(place) + counters->column;
}

void find_counters(void)
{
	for (uint32_t index = 0; index < FIRST_OF_PERF; index++)
		all.names[all.count++] = kernel_names[index];
	find_perf_events();
}

void open_counters(struct counters *counters, int cpu)
{
	memset(interrupts_text, 1, sizeof(interrupts_text));
	counters->interrupts_file = open("/proc/interrupts", O_RDONLY | O_CLOEXEC);
	counters->column_count = 0;
	if (counters->interrupts_file >= 0)
		find_column(counters, cpu);
	for (uint32_t index = FIRST_OF_PERF; index < all.count; index++)
		counters->perf_files[index] = open_perf_event(opened_events[index - FIRST_OF_PERF]);
}

const struct counter_names *counter_names(void)
{
	return &all;
}

/* Of all lines, what the column says. */
static double count_interrupts(const struct counters *counters)
{
	size_t bytes = 0;
	ssize_t got;
	double sum = 0;

	if (counters->column_count == 0)
		return 0;
	while ((got = pread(counters->interrupts_file, interrupts_text + bytes, sizeof(interrupts_text) - 1 - bytes,
	                    (off_t)bytes)) > 0)
		bytes += (size_t)got;
	interrupts_text[bytes] = 0;
	for (char *line = strchr(interrupts_text, '\n'); line; line = strchr(line, '\n')) {
		char *number = strchr(++line, ':');
		uint32_t column = 0;

		for (number = number ? number + 1 : NULL; number && column < counters->column; column++)
			strtoull(number, &number, 10);
		if (number)
			sum += (double)strtoull(number, NULL, 10);
	}
	return sum;
}

static double count_of_perf(int file)
{
	uint64_t value[3];

	if (file < 0 || read(file, value, sizeof(value)) != sizeof(value) || value[2] == 0)
		return 0;
	return (double)value[0] * ((double)value[1] / (double)value[2]);
}

void read_kernel_counters(const struct counters *counters, struct counts *counts)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	counts->values[INVOLUNTARY_SWITCHES] = (double)usage.ru_nivcsw;
	counts->values[VOLUNTARY_SWITCHES] = (double)usage.ru_nvcsw;
	counts->values[PAGE_FAULTS] = (double)(usage.ru_minflt + usage.ru_majflt);
	counts->values[INTERRUPTS] = count_interrupts(counters);
}

void read_perf_counters(const struct counters *counters, struct counts *counts)
{
	for (uint32_t index = FIRST_OF_PERF; index < all.count; index++)
		counts->values[index] = count_of_perf(counters->perf_files[index]);
}

bool is_interrupted(const struct counts *before, const struct counts *after)
{
	return after->values[INVOLUNTARY_SWITCHES] != before->values[INVOLUNTARY_SWITCHES] ||
	       after->values[INTERRUPTS] != before->values[INTERRUPTS];
}
