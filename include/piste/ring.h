/* SPDX-License-Identifier: MIT */
/*
 * The fast path: reserve space in a ring, write, commit. It records an event of fixed size in a channel that is the only one to record
 * it and that is plain (no contexts, the TSC as clock, an event ID that fits into a compact header). It is compiled into programs because
 * it determines the cost of an event. It has no branches for special cases: it gives up before it has written anything, and the general
 * path of the runtime records the event (runtime/record.c). For the memory and its invariants R1 to R7, see abi/ring.h.
 *
 * ORDER ring.position   writer: load acquire, swap acq_rel           | pairs with writers and crates/ring (end_current)
 * ORDER ring.mark       writer: store release                        | crates/ring: load acquire before the copy
 * ORDER ring.window     runtime/record.c: store release, after the   | here: load before the swap
 *                       commit
 *
 * A signal handler that also records may interrupt any of these functions at any instruction. If space was already reserved, the handler's
 * record takes the space after it, and the interrupted record is committed later; otherwise the interrupted swap fails.
 *
 * Cost: reading the clock and one locked instruction, which overlap. The locked instruction waits for every older store, so nothing here
 * may spill to the stack: these functions take and return values, not pointers to structs, and members of a view are used as operands of
 * instructions. tests/programs/stepped.c counts the instructions. PISTE_END_AFTER() marks the ends of steps for `piste bench` (steps.h).
 */
#ifndef PISTE_RING_H
#define PISTE_RING_H

#include <stddef.h>
#include <stdint.h>

#include "abi/protocol.h"
#include "abi/ring.h"
#include "atomic.h"
#include "steps.h"
#include "thread.h"

/* On other architectures, reading the clock takes a call, so every event takes the general path. */
#if defined(__x86_64__) && defined(__LP64__)
#define PISTE_FAST_PATH 1
#else
#define PISTE_FAST_PATH 0
#endif

/* A view contains everything that depends on the combination of a ring, an event and a channel, computed once. The views of an event are
 * PISTE_VIEWS_STRIDE_BYTES apart, in the order of the rings' indexes, in private memory of the process in front of the channel's memory.
 * A view is all zeros until the general path has recorded the event in the ring, and does not change afterwards.
 *
 * When a channel is removed, zero pages replace its views and rings, and fork wipes the views (ARCHITECTURE.md: "The memory of a
 * removed channel is replaced", "A channel does not survive fork"). Both can happen between any two loads of a call that has begun.
 * Therefore the only absolute address is that of the view itself. The offset that is added to it is zero or leads to an address within the
 * channel's memory. A view of zeros has no space, and its window is never open. */
struct piste_view {
	uint64_t ring_offset_bytes; /* From this view to the ring's header. Set last. */
	uint64_t ring_units_mask;
	uint64_t subbuf_units_mask;
	uint64_t marks_offset_bytes; /* From the ring's header. */
	uint32_t lap_shift;          /* Binary logarithm of the number of units of a ring. */
	uint32_t id;                 /* The event's ID, in the low bits, as in a compact header. */
	uint64_t reserved[3];
};

#define PISTE_VIEW_BYTES 64u
#define PISTE_VIEWS_STRIDE_BYTES                                                                                       \
	2048u /* One view for each ID that a compact header can hold, and one that is never plain. */

PISTE_ABI_SIZE(struct piste_view, PISTE_VIEW_BYTES);

/* Whether an event with `bytes` bytes of fields can take the fast path: the size must be a compile-time constant. */
#define piste_is_fast(bytes) (PISTE_FAST_PATH && __builtin_constant_p(bytes))

/* The space of one record, between reserve and commit. */
struct piste_space {
	uint8_t *cursor; /* Where to write the fields; NULL if nothing was reserved. */
	struct piste_ring_header *ring;
	const struct piste_view *view;
	uint64_t position; /* Including the bits of the CPU. */
	uint64_t unit;     /* Index of the first unit in the ring. */
	uint64_t units;
};

#if PISTE_FAST_PATH

/* What the writer that moved a ring's position last knows by its CPU. */
#define PISTE_POSITION_CPU(position) ((uint32_t)((position) >> PISTE_POSITION_CPU_SHIFT))

/* Reserves a record and writes its header. `views` is the value of the event's `enabled`. Safe in signal handlers and in any thread. */
static inline __attribute__((always_inline)) struct piste_space
piste_reserve(const struct piste_thread_offsets *offsets, uint64_t views, size_t bytes)
{
	struct piste_space space = {NULL, NULL, NULL, 0, 0, 0};
	const struct piste_view *view =
	        (const struct piste_view *)(uintptr_t)(views +
	                                               piste_thread_word(offsets->index) * PISTE_VIEWS_STRIDE_BYTES);
	const uint64_t units = (PISTE_RECORD_COMPACT_BYTES + bytes + PISTE_UNIT_BYTES - 1) / PISTE_UNIT_BYTES;
	/* ORDER ring.view (acquire): the rest of the view has been set before. Pairs with runtime/record.c. */
	struct piste_ring_header *ring =
	        (struct piste_ring_header *)((uintptr_t)view + piste_load_acquire(&view->ring_offset_bytes));
	int64_t cpu_offset = offsets->cpu;
	uint64_t position, expected, window;
	uint32_t header, ticks;

	/* ORDER ring.position (acquire): our stores come after the reader's copy, which the writer that entered the sub-buffer has
	 * seen. Pairs with runtime/ring.c. */
	position = piste_load_acquire(&ring->position);
	/* R1: the processor may read the clock before the position. It is then still not behind that of the last writer
	 * if that writer was on this CPU, so the CPU must be the same before and after. */
	if (piste_unlikely(!piste_thread_word_is(cpu_offset, PISTE_POSITION_CPU(position))))
		return space;
	PISTE_END_AFTER(PISTE_STEP_LOOKUP);
	__asm__ volatile("rdtsc\n\tshldl $5, %%eax, %%edx" : "=a"(ticks), "=d"(window));
	if (piste_unlikely(!piste_thread_word_is(cpu_offset, PISTE_POSITION_CPU(position))))
		return space;
	/* R3, and whether the session is recording. */
	if (piste_unlikely(window != piste_load_operand(&ring->window)))
		return space;
	PISTE_END_AFTER(PISTE_STEP_CLOCK);
	/* If no sub-buffer is open, or the open one has too little space left, the sum lies in the first units of a sub-buffer. */
	if (piste_unlikely(((position + units - 1) & piste_load_operand(&view->subbuf_units_mask)) < units))
		return space;
	expected = position;
	if (piste_unlikely(!piste_swap_if(&ring->position, &expected, position + units)))
		return space;
	PISTE_END_AFTER(PISTE_STEP_RESERVE);
	header = ticks << PISTE_RECORD_ID_BITS | piste_load_operand(&view->id);
	space.ring = ring;
	space.view = view;
	space.position = position;
	space.unit = expected & piste_load_operand(&view->ring_units_mask);
	space.units = units;
	space.cursor = (uint8_t *)ring + PISTE_RING_DATA_OFFSET_BYTES + space.unit * PISTE_UNIT_BYTES;
	__builtin_memcpy(space.cursor, &header, sizeof(header));
	space.cursor += sizeof(header);
	return space;
	PISTE_WHERE_ENDED(space.units = units; return space;)
}

#else

static inline struct piste_space piste_reserve(const struct piste_thread_offsets *offsets, uint64_t views, size_t bytes)
{
	const struct piste_space none = {NULL, NULL, NULL, 0, 0, 0};

	(void)offsets;
	(void)views;
	(void)bytes;
	return none;
}

#endif

/* Commits `units` units: their marks get the tag of `first`. The first mark is written last and gets `first` itself. Short records use
 * single stores that do not overlap: a wider store that overlaps the first mark would delay the next locked instruction (measured: 4 ns).
 *
 * ORDER ring.mark (release): the contents of the units and their other marks are visible before the first mark. Pairs with
 * crates/ring/src/reader.rs. Without it, a reader could copy unwritten bytes. */
static inline __attribute__((always_inline)) void piste_mark(uint8_t *marks, uint64_t units, uint8_t first)
{
	uint8_t tag = first & PISTE_MARK_TAG_MASK;

	if (piste_likely(units <= 8) || !PISTE_PLAIN_STORES) {
		for (uint64_t unit = 1; unit < units; unit++)
			piste_store_relaxed(marks + unit, tag);
	} else {
		__builtin_memset(marks + 1, tag, units - 1);
	}
	piste_store_release(marks, first);
}

static inline __attribute__((always_inline)) void piste_commit(struct piste_space space)
{
	uint8_t *marks = (uint8_t *)space.ring + piste_load_operand(&space.view->marks_offset_bytes) + space.unit;

	/* The number of the lap, and any bits above it. */
	space.position >>= piste_load_operand(&space.view->lap_shift);
	space.position |= PISTE_MARK_TAG_ALWAYS | PISTE_MARK_HEAD;
	piste_tell_space_given(space.ring);
	piste_mark(marks, space.units, (uint8_t)space.position);
}

#endif
