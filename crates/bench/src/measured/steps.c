/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the time of an event of Piste goes: the whole event, and those that end after one of its steps (step.h). */
#include "steps.h"
#include "rounds.h"

#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PISTE_EVENT(bench, whole, (int32_t, v))

VARIANT(record_whole, piste(bench, whole, (int32_t)event))

static const struct variant variants[] = {
        {"callback", record_callback}, {"lookup", record_lookup}, {"clock", record_clock},
        {"reserve", record_reserve},   {"write", record_write},   {"commit", record_whole},
};

SERVE_ROUNDS(variants)

void mark_holes(const struct piste_view *view, uint64_t index)
{
	/* The unit of each ring up to which everything is marked. At any time, one thread has an index: no order is needed. */
	static uint64_t marked[PISTE_RING_COUNT_MAX];
	const struct piste_ring_header *ring =
	        (const struct piste_ring_header *)((uintptr_t)view + view->ring_offset_bytes);
	uint8_t *marks = (uint8_t *)((uintptr_t)ring + view->marks_offset_bytes);
	uint64_t end = piste_load_relaxed(&ring->position) & PISTE_POSITION_UNITS_MASK;
	uint64_t unit = piste_load_relaxed(&marked[index]);

	if (piste_load_relaxed(&ring->discarded_full) > 0)
		give_up("the ring was full");
	while (unit < end) {
		uint64_t place = unit & view->ring_units_mask;
		uint64_t to_end = view->ring_units_mask + 1 - place;
		uint64_t some = end - unit < to_end ? end - unit : to_end;

		memset(marks + place, (int)(PISTE_MARK_TAG_ALWAYS | (unit >> view->lap_shift & PISTE_MARK_LAP_MASK)),
		       some);
		unit += some;
	}
	piste_store_relaxed(&marked[index], end);
}

void give_up(const char *reason)
{
	fprintf(stderr, "cannot measure the steps of an event: %s\n", reason);
	exit(1);
}
