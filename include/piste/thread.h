/* SPDX-License-Identifier: MIT */
/*
 * What the event path needs to know about the current thread: its id, its CPU, and the index of the ring to write to. The CPU and
 * the index come from the area that the kernel maintains for rseq(2), which glibc 2.35 and later register: two loads, no call.
 */
#ifndef PISTE_THREAD_H
#define PISTE_THREAD_H

#include <stdint.h>

#include "atomic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of the thread in the pid namespace of the program; 0 until the first record of the thread. */
extern __thread int32_t piste_thread_id __attribute__((tls_model("initial-exec")));

/* Gets the id from the kernel, once for each thread. Safe in signal handlers. */
int32_t piste_thread_id_slow(void);

/* Returns the CPU without rseq. Safe in signal handlers. */
uint32_t piste_thread_cpu_slow(void);

#ifdef __cplusplus
}
#endif

static inline __attribute__((always_inline)) int32_t piste_thread_id_get(void)
{
	int32_t id = piste_thread_id;

	return piste_likely(id != 0) ? id : piste_thread_id_slow();
}

/* Returns a uint32 of the rseq area. `offset` is its offset from the thread pointer; 0 if there is no such area. */
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
