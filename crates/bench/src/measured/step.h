/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An event of Piste that ends early, for the files step-*.c, which name its last step and its function. It is the event path of every
 * program, compiled from Piste's headers with PISTE_LAST_STEP set (piste/steps.h). What one of these events takes longer than the one that
 * ends a step earlier is the time that the step adds. steps.c has the whole event.
 *
 * When something is not as usual, the event is recorded whole by the general path, as any other event: when the ring's window is over (about 20
 * times a second; events that read the clock), and at the end of a sub-buffer (events that reserve space). Otherwise nothing is recorded. The steps from the reservation on leave holes in the
 * ring: space that nobody commits, which a ring that is overwritten does not enter again. So they are marked as committed every HOLES_MAX
 * events: the same bytes in memory as whole events mark, but many with one store. These marks are wrong, so this
 * ring is never read (peers/piste_steps.rs).
 */
#include "rounds.h"
#include "steps.h"

#include <piste/tracepoint.h>
#include <unistd.h>

/* Ten seconds in all. */
#define OPEN_TRIES   1000
#define OPEN_WAIT_US 10000

PISTE_EVENT(bench, unfinished, (int32_t, v))

VARIANT(record_some, piste(bench, unfinished, (int32_t)event))

/* The ring of this thread as the event sees it. */
struct own_ring {
	const struct piste_view *view;
	uint64_t index;
};

static struct own_ring own_ring(void)
{
	uint64_t index = piste_thread_word(piste_this_module.offsets.index);
	uint64_t views = piste_load_relaxed(&PISTE_EVENT__bench__unfinished.enabled);

	return (struct own_ring){
	        .view = views ? (const struct piste_view *)(uintptr_t)(views + index * PISTE_VIEWS_STRIDE_BYTES) : NULL,
	        .index = index,
	};
}

/* Whether the fast path knows the ring, and it is one: not as in the views that lead to none (runtime/record.c). */
static bool is_open(const struct piste_view *view)
{
	return view && piste_load_acquire(&view->ring_offset_bytes) != 0 && view->ring_units_mask != UINT64_MAX;
}

/* The first event in a ring is recorded whole, because the fast path does not know a ring before. On a busy machine, it may be a while until
 * pisted has enabled the event, and the kernel may give the thread another ring meanwhile. */
static struct own_ring open_ring(void)
{
	struct own_ring own = own_ring();

	for (int try = 0; !is_open(own.view); try++) {
		if (try == OPEN_TRIES)
			give_up(own.view ? "events do not take the fast path, whose steps are measured"
			                 : "no session records the event");
		if (own.view)
			PISTE_RECORD_ANYWHERE__bench__unfinished(0, &PISTE_EVENT__bench__unfinished, NULL);
		if (try > 0)
			usleep(OPEN_WAIT_US);
		own = own_ring();
	}
	return own;
}

void RECORD(uint64_t first, uint64_t count)
{
	const uint64_t end = first + count;

	while (first < end) {
		const struct own_ring own = open_ring();
		uint64_t some = end - first < HOLES_MAX ? end - first : HOLES_MAX;

		record_some(first, some);
		first += some;
		/* Otherwise the kernel has given the ring to another thread, which marks the rest. */
		if (PISTE_LAST_STEP >= PISTE_STEP_RESERVE && own_ring().index == own.index)
			mark_holes(own.view, own.index);
	}
}
