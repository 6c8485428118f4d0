/* SPDX-License-Identifier: MIT */
/* Thread id, CPU and ring index: what include/piste/thread.h reads fast. */
#define _GNU_SOURCE
#include "runtime.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the kernel's struct rseq. glibc 2.36 states 20 bytes although the kernel fills more, so the kernel is asked. */
#define PISTE_RSEQ_CPU_ID_START_OFFSET 0
#define PISTE_RSEQ_MM_CID_OFFSET       24
#define PISTE_RSEQ_WITH_MM_CID_BYTES   28
#define PISTE_AT_RSEQ_FEATURE_SIZE     27

__thread int32_t piste_thread_id __attribute__((tls_model("initial-exec")));

/* Since glibc 2.35. The size is 0 when rseq is not registered. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

int32_t piste_thread_id_slow(void)
{
	piste_thread_id = (int32_t)syscall(SYS_gettid);
	return piste_thread_id;
}

uint32_t piste_thread_cpu_slow(void)
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

struct piste_thread_offsets piste_thread_offsets_find(uint8_t *ring_index)
{
	struct piste_thread_offsets offsets = {0, 0};

	*ring_index = PISTE_RING_INDEX_CPU;
	if (!&__rseq_size || __rseq_size == 0)
		return offsets;
	offsets.cpu = __rseq_offset + PISTE_RSEQ_CPU_ID_START_OFFSET;
	offsets.index = offsets.cpu;
	if (getauxval(PISTE_AT_RSEQ_FEATURE_SIZE) >= PISTE_RSEQ_WITH_MM_CID_BYTES) {
		offsets.index = __rseq_offset + PISTE_RSEQ_MM_CID_OFFSET;
		*ring_index = PISTE_RING_INDEX_CONCURRENCY_ID;
	}
	return offsets;
}

void piste_thread_forked(void)
{
	piste_thread_id = 0;
}
