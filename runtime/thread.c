/* SPDX-License-Identifier: MIT */
/* Thread id, CPU, ring index, and the clock where reading it is a call. */
#define _GNU_SOURCE
#include "runtime.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the kernel's struct rseq. glibc 2.36 states 20 bytes although the kernel fills more, so the kernel is asked. */
#define PISTE_RSEQ_CPU_ID_START_OFFSET 0
#define PISTE_RSEQ_MM_CID_OFFSET       24
#define PISTE_RSEQ_WITH_MM_CID_BYTES   28
#define PISTE_AT_RSEQ_FEATURE_SIZE     27

/* No kernel is built for more (NR_CPUS). */
#define CPU_COUNT_MAX 8192

/* Initial-exec, since glibc gives the memory of a library's other thread-local variables at first use, from the heap. */
__thread int32_t piste_known_thread_id __attribute__((tls_model("initial-exec")));
static __thread uint32_t no_area __attribute__((tls_model("initial-exec"))); /* Always 0. */

int32_t piste_thread_id_ask(void)
{
	piste_known_thread_id = (int32_t)syscall(SYS_gettid);
	return piste_known_thread_id;
}

uint32_t piste_thread_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (uint32_t)cpu;
}

uint64_t piste_clock_monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uintptr_t thread_pointer(void)
{
#if defined(__x86_64__)
	uintptr_t pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
#elif defined(__aarch64__)
	return (uintptr_t)__builtin_thread_pointer();
#else
	return (uintptr_t)&no_area;
#endif
}

struct piste_thread_offsets piste_thread_offsets_find(uint8_t *ring_index)
{
	struct piste_thread_offsets offsets;

	*ring_index = PISTE_RING_INDEX_CPU;
	if (!piste_thread_has_area()) {
		offsets.cpu = (int64_t)((uintptr_t)&no_area - thread_pointer());
		offsets.index = offsets.cpu;
		return offsets;
	}
	offsets.cpu = __rseq_offset + PISTE_RSEQ_CPU_ID_START_OFFSET;
	offsets.index = offsets.cpu;
	if (getauxval(PISTE_AT_RSEQ_FEATURE_SIZE) >= PISTE_RSEQ_WITH_MM_CID_BYTES) {
		offsets.index = __rseq_offset + PISTE_RSEQ_MM_CID_OFFSET;
		*ring_index = PISTE_RING_INDEX_CONCURRENCY_ID;
	}
	return offsets;
}

uint32_t piste_thread_index_count(void)
{
	static const char path[] = "/sys/devices/system/cpu/possible";
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count = 0;
	char list[256];
	char *last;

	if (file >= 0) {
		count = read(file, list, sizeof(list) - 1);
		close(file);
	}
	list[count > 0 ? count : 0] = 0;
	last = list + strlen(list);
	while (last > list && last[-1] != ',' && last[-1] != '-')
		last--;
	/* A list of ranges, in order; longer than this, it is not the whole. */
	if (count <= 0 || count == sizeof(list) - 1 || *last < '0' || *last > '9')
		return CPU_COUNT_MAX;
	return (uint32_t)strtoul(last, NULL, 10) + 1;
}

void piste_thread_forked(void)
{
	piste_known_thread_id = 0;
}
