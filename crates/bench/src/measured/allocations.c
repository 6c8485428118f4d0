/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls of the C library that a preload helper records, and the same ones by the names under which glibc calls itself, which no helper sees. */
#include "rounds.h"

#include <stdlib.h>

#define ALLOCATED_BYTES 64

void *__libc_malloc(size_t bytes);
void __libc_free(void *memory);

/* The compiler leaves out memory that is never used. */
static inline void *used(void *memory)
{
	__asm__ volatile("" : "+r"(memory) : : "memory");
	return memory;
}

VARIANT(allocate_untraced, __libc_free(used(__libc_malloc(ALLOCATED_BYTES))))
VARIANT(allocate_traced, free(used(malloc(ALLOCATED_BYTES))))

static const struct variant variants[] = {{"untraced", allocate_untraced}, {"traced", allocate_traced}};

SERVE_ROUNDS(variants)
