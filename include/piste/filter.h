/* SPDX-License-Identifier: MIT */
/*
 * The part of a filter that is compiled into programs. Most filters begin by comparing an integer field with a number, and few events
 * pass this comparison. Most events with a filter are therefore rejected here, without a call to the runtime.
 */
#ifndef PISTE_FILTER_H
#define PISTE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/event.h"
#include "atomic.h"

/* The first test of a filter: whether the integer at `offset` is in a range. If not, the event is rejected. Never changed or freed. */
struct piste_filter_range {
	uint64_t first;  /* The smallest integer that passes, extended to 64 bits ... */
	uint64_t others; /* ... and how many integers after it pass, too. */
	uint32_t offset;
	uint32_t end;        /* End of the integer: an event whose fields end before it is rejected. */
	uint8_t kind;        /* enum piste_element */
	uint8_t is_inverted; /* 1: the integer must be outside the range instead. */
	uint8_t reserved[6];
};
PISTE_ABI_SIZE(struct piste_filter_range, 32);

/* The integer that begins at `bytes`, extended to 64 bits. It has just been stored, and is loaded with the same width, because processors do
 * not forward a store to a wider load. */
static inline __attribute__((always_inline)) uint64_t piste_filter_integer(const uint8_t *bytes, uint8_t kind)
{
	const bool is_signed = kind <= PISTE_ELEMENT_INT64;
	uint8_t byte;
	uint16_t half;
	uint32_t word;
	uint64_t integer;

	if (kind == PISTE_ELEMENT_INT32 || kind == PISTE_ELEMENT_UINT32) {
		__builtin_memcpy(&word, bytes, sizeof(word));
		return is_signed ? (uint64_t)(int32_t)word : word;
	}
	if (kind == PISTE_ELEMENT_INT64 || kind == PISTE_ELEMENT_UINT64) {
		__builtin_memcpy(&integer, bytes, sizeof(integer));
		return integer;
	}
	if (kind == PISTE_ELEMENT_INT16 || kind == PISTE_ELEMENT_UINT16) {
		__builtin_memcpy(&half, bytes, sizeof(half));
		return is_signed ? (uint64_t)(int16_t)half : half;
	}
	__builtin_memcpy(&byte, bytes, sizeof(byte));
	return is_signed ? (uint64_t)(int8_t)byte : byte;
}

/* Whether an event passes. Its fields have `bytes` bytes. */
static inline __attribute__((always_inline)) bool piste_filter_range_has(const struct piste_filter_range *range,
                                                                         const uint8_t *fields, uint64_t bytes)
{
	if (piste_unlikely(range->end > bytes))
		return false;
	return (piste_filter_integer(fields + range->offset, range->kind) - range->first <= range->others) !=
	       range->is_inverted;
}

#endif
