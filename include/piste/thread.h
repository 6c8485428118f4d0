/* SPDX-License-Identifier: MIT */
/*
 * What the event path knows of the thread it runs on: its id, the CPU, and the index of the ring it should write to. The CPU and
 * the index come from the area that the kernel keeps for rseq(2), registered by glibc 2.35 and later: two loads, no call.
 */
#ifndef PISTE_THREAD_H
#define PISTE_THREAD_H

#include <stdint.h>

#include "atomic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The thread's id in the program's own pid namespace, 0 until the thread's first record. */
extern __thread int32_t piste_thread_id __attribute__((tls_model("initial-exec")));

/* Asks the kernel for the id, once for each thread. Safe in signal handlers. */
int32_t piste_thread_id_slow(void);

/* CPU without rseq. Safe in signal handlers. */
uint32_t piste_thread_cpu_slow(void);

#ifdef __cplusplus
}
#endif

static inline __attribute__((always_inline)) int32_t piste_thread_id_get(void)
{
	int32_t id = piste_thread_id;

	return piste_likely(id != 0) ? id : piste_thread_id_slow();
}

/* `offset` is that of a uint32 in the rseq area from the thread pointer; 0 when there is no such area. */
static inline __attribute__((always_inline)) uint32_t piste_thread_word(int64_t offset)
{
	if (piste_unlikely(offset == 0))
		return piste_thread_cpu_slow();
#if defined(__x86_64__)
	{
		uint32_t word;

		__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
		return word;
	}
#elif defined(__aarch64__)
	return *(volatile uint32_t *)((char *)__builtin_thread_pointer() + offset);
#else
	return piste_thread_cpu_slow();
#endif
}

#endif
