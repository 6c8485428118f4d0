/* SPDX-License-Identifier: MIT */
/*
 * What recording an event needs to know about the current thread: its CPU, and the index of the ring to write to. Both come from the
 * memory area that the kernel maintains for rseq(2), and that glibc 2.35 and later register. This takes two loads and no call.
 */
#ifndef PISTE_THREAD_H
#define PISTE_THREAD_H

#include <stdint.h>

/* Offsets of the two from the thread pointer, set by the runtime. If there is no such area, they lead to zeros, and no channel is
 * recorded on the fast path. */
struct piste_thread_offsets {
	int64_t index;
	int64_t cpu;
};

/* Returns the uint32 at `offset` from the thread pointer. */
static inline __attribute__((always_inline)) uint64_t piste_thread_word(int64_t offset)
{
#if defined(__x86_64__)
	uint64_t word;

	__asm__ volatile("movl %%fs:(%1), %k0" : "=r"(word) : "r"(offset));
	return word;
#elif defined(__aarch64__)
	return *(volatile uint32_t *)((char *)__builtin_thread_pointer() + offset);
#else
	(void)offset;
	return 0;
#endif
}

/* Whether the uint32 at `offset` is `word`. On x86, this is one comparison with memory, which needs no register. */
static inline __attribute__((always_inline)) int piste_thread_word_is(int64_t offset, uint32_t word)
{
#if defined(__x86_64__)
	int is;

	__asm__ volatile("cmpl %%fs:(%1), %2" : "=@cce"(is) : "r"(offset), "r"(word));
	return is;
#else
	return piste_thread_word(offset) == word;
#endif
}

#endif
