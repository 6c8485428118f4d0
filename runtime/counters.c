/* SPDX-License-Identifier: MIT */
/*
 * Hardware counters of threads, read without a system call: the kernel's page for each counter says which register of the processor holds it
 * (perf_event_open(2), struct perf_event_mmap_page), and rdpmc reads that.
 *
 * A thread opens a counter when it first needs it. The page keeps the counter, so no descriptor stays open. That of a thread which ended is
 * given back when the next thread opens one.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include "counter_page.h"

#include <linux/perf_event.h>
#include <piste/context.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNTERS_OF_THREAD 8u

struct counter {
	uint32_t type;
	uint64_t config;
	struct perf_event_mmap_page *page; /* NULL: the system refused it. */
};

/* The counters of one thread. These are never freed, but used again. */
struct counters {
	struct counters *next;
	int32_t thread_id;
	uint32_t count;
	struct counter counter[COUNTERS_OF_THREAD];
};

static struct counters *first_counters;
static __thread struct counters *own_counters __attribute__((tls_model("initial-exec")));

static struct perf_event_mmap_page *open_counter(uint32_t type, uint64_t config)
{
	struct perf_event_attr attributes;
	void *page;
	int file;

	memset(&attributes, 0, sizeof(attributes));
	attributes.type = type;
	attributes.size = sizeof(attributes);
	attributes.config = config;
	attributes.exclude_kernel = 1;
	attributes.exclude_hv = 1;
	attributes.pinned = 1;
	file = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (file < 0)
		return NULL;
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, file, 0);
	/* Not the C library's, in which a thread can be cancelled. */
	syscall(SYS_close, file);
	return page == MAP_FAILED ? NULL : page;
}

static void close_counters(struct counters *counters, bool is_mapped)
{
	for (uint32_t index = 0; index < counters->count; index++)
		if (is_mapped && counters->counter[index].page)
			munmap(counters->counter[index].page, (size_t)sysconf(_SC_PAGESIZE));
	counters->count = 0;
	counters->thread_id = 0;
}

/* With the lock held. */
static struct counters *take_counters(int32_t thread_id)
{
	struct counters *counters, *free_counters = NULL;
	int32_t process_id = getpid();

	for (counters = first_counters; counters; counters = counters->next) {
		/* An earlier thread may have had this one's id. */
		if (counters->thread_id != 0 &&
		    (counters->thread_id == thread_id || syscall(SYS_tgkill, process_id, counters->thread_id, 0) != 0))
			close_counters(counters, true);
		if (counters->thread_id == 0)
			free_counters = counters;
	}
	if (!free_counters) {
		free_counters = piste_take_memory(sizeof(*free_counters));
		if (!free_counters)
			return NULL;
		free_counters->next = first_counters;
		first_counters = free_counters;
	}
	free_counters->thread_id = thread_id;
	return free_counters;
}

static struct counter *find_counter(uint32_t type, uint64_t config)
{
	for (uint32_t index = 0; own_counters && index < own_counters->count; index++) {
		struct counter *counter = &own_counters->counter[index];

		if (counter->type == type && counter->config == config)
			return counter;
	}
	return NULL;
}

static struct counter *add_counter(uint32_t type, uint64_t config)
{
	struct counter *counter;
	sigset_t before;

	/* Signals are blocked while the lock is held, so no handler opens the same one meanwhile. */
	piste_lock(&before);
	if (!own_counters)
		own_counters = take_counters(piste_thread_id());
	counter = find_counter(type, config);
	if (!counter && own_counters && own_counters->count < COUNTERS_OF_THREAD) {
		counter = &own_counters->counter[own_counters->count];
		*counter = (struct counter){type, config, open_counter(type, config)};
		own_counters->count++;
	}
	piste_unlock(&before);
	return counter;
}

struct piste_value piste_counter_value(uint32_t type, uint64_t config)
{
	struct counter *counter = find_counter(type, config);
	struct piste_value value = {PISTE_VALUE_NONE, {0}};

	if (!counter)
		counter = add_counter(type, config);
	if (counter && counter->page && piste_counter_page_read(counter->page, &value.unsigned_integer))
		value.kind = PISTE_VALUE_UINT64;
	return value;
}

void piste_counters_forked(void)
{
	/* The kernel does not copy these mappings, and gives the child no counters. */
	for (struct counters *counters = first_counters; counters; counters = counters->next)
		close_counters(counters, false);
	own_counters = NULL;
}
