/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library with a heap of its own, as programs bring them: calloc and realloc are built upon malloc, by the name that others see. Memory is
 * never given back.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES (64u << 20)

static _Alignas(16) unsigned char heap[HEAP_BYTES];
static size_t heap_used;

/* In front of each block: its size. */
#define LEAD_BYTES 16

void *malloc(size_t size)
{
	size_t start = __atomic_fetch_add(&heap_used, (size + LEAD_BYTES + 15) / 16 * 16, __ATOMIC_RELAXED);

	if (size > HEAP_BYTES / 2 || start > HEAP_BYTES / 2)
		return NULL;
	memcpy(heap + start, &size, sizeof(size));
	return heap + start + LEAD_BYTES;
}

void free(void *block)
{
	/* Memory of another heap would be an error of whoever stands in front of this one. */
	if (block && (uintptr_t)block - (uintptr_t)heap >= HEAP_BYTES)
		abort();
}

/* Memory that was never given out before is zero. */
void *calloc(size_t count, size_t size)
{
	return malloc(count * size);
}

void *realloc(void *block, size_t size)
{
	void *moved = malloc(size);
	size_t before = 0;

	if (block)
		memcpy(&before, (unsigned char *)block - LEAD_BYTES, sizeof(before));
	if (moved && block)
		memcpy(moved, block, before < size ? before : size);
	free(block);
	return moved;
}
