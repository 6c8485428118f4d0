/* SPDX-License-Identifier: MIT */
/*
 * The general path: records an event in every channel that its slots name, whatever the channel wants. It is what the fast path of
 * piste/ring.h gives up to: for channels with contexts or without the TSC, events with large ids, events that several channels record,
 * the first event after 2^27 ticks, on another CPU, in a new sub-buffer. The memory and its invariants R1 to R7 are in
 * piste/abi/ring.h; entering the next sub-buffer is in ring.c.
 *
 * It also opens what the fast path needs: the views of the event in the ring, and the ring's window.
 *
 * ORDER ring.active   here: window store, fence, then load | crates/ring: store, fence, then the windows are closed
 * ORDER ring.window   here: store release after the commit | piste/ring.h: load before the swap
 * ORDER ring.view     here: store release                  | piste/ring.h: load acquire
 * ORDER event.slot    modules.c: store release             | here: load acquire
 * ORDER event.filter  modules.c: store release             | here, piste_event_filter() and piste/event.h: load acquire
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <piste/tracepoint.h>

/* The runtime's part of struct piste_record. */
struct progress {
	struct piste_event *event;
	uint64_t bytes;
	uint64_t filtered_bytes;
	uint8_t *filtered;
	struct piste_slots *slots; /* NULL: nothing was looked at. */
	const void *ip;
	bool passes;                   /* The only filter, so no other is asked. */
	uint32_t index;                /* The next slot of these ... */
	uint32_t number;               /* ... and its number among all. */
	uint64_t straight_marks;       /* Of the record that was reserved the straight way; otherwise 0 ... */
	struct piste_channel *channel; /* ... and what follows. NULL: nothing was reserved. */
	uint32_t units;
	struct piste_ring_header *ring;
	uint64_t window; /* That the record lies in. */
	uint8_t *marks;
	uint8_t first_mark;
};
_Static_assert(sizeof(struct progress) <= offsetof(struct piste_record, scratch), "programs provide too little");

static uint64_t window_of(uint64_t ticks)
{
	return (uint32_t)(ticks >> PISTE_RECORD_TIME_BITS);
}

static struct piste_view *view_in(struct piste_channel *channel, uint32_t id, uint32_t index)
{
	return (struct piste_view *)((uint8_t *)piste_channel_view(channel, id) +
	                             (uint64_t)index * PISTE_VIEWS_STRIDE_BYTES);
}

/* Lets the fast path find the ring. Threads that do so at the same time store the same. If the channel went meanwhile, or the process
 * forked, which wipes the channel's page with its views, the view is emptied again. */
static void fill_view(struct piste_channel *channel, uint32_t id, uint32_t index, struct piste_ring_header *ring)
{
	struct piste_view *view = view_in(channel, id, index);

	piste_store_relaxed(&view->ring_units_mask, ((uint64_t)1 << channel->ring_units_log2) - 1);
	piste_store_relaxed(&view->subbuf_units_mask, (uint64_t)channel->subbuf_units - 1);
	piste_store_relaxed(&view->marks_offset_bytes, channel->marks_offset_bytes);
	piste_store_relaxed(&view->lap_shift, channel->ring_units_log2);
	piste_store_relaxed(&view->id, id);
	piste_store_release(&view->ring_offset_bytes, (uint64_t)((uintptr_t)ring - (uintptr_t)view));
	if (!piste_load_acquire(&channel->key))
		piste_store_release(&view->ring_offset_bytes, 0);
}

/* Lets the fast path see at once that a ring is not for it: a position of no CPU, in the view itself. */
static void fill_empty_view(struct piste_view *view)
{
	piste_store_relaxed(&view->ring_units_mask, UINT64_MAX);
	piste_store_release(&view->ring_offset_bytes, offsetof(struct piste_view, ring_units_mask));
}

static void open_view(struct piste_channel *channel, uint32_t id, uint32_t index, struct piste_ring_header *ring)
{
	struct piste_view *empty = view_in(channel, PISTE_RECORD_ID_EXTENDED, index);

	if (piste_unlikely(!piste_load_relaxed(&empty->ring_offset_bytes)))
		fill_empty_view(empty);
	if (channel->is_plain && id < PISTE_RECORD_ID_EXTENDED &&
	    piste_unlikely(!piste_load_relaxed(&view_in(channel, id, index)->ring_offset_bytes)))
		fill_view(channel, id, index, ring);
}

/* The fast path looks at nothing but the window to know whether the session records. So who opens one looks again: either this
 * thread sees that recording was stopped, or who stopped it sees the window, and closes it. */
static void open_window(struct piste_channel *channel, struct piste_ring_header *ring, uint64_t window)
{
	piste_store_release(&ring->window, window);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!piste_load_relaxed(&piste_channel_header(channel)->active_key))
		piste_store_relaxed(&ring->window, PISTE_WINDOW_CLOSED);
}

static inline uint8_t *write_header(uint8_t *cursor, uint32_t id, uint64_t ticks, bool is_extended)
{
	uint32_t header = (uint32_t)(ticks << PISTE_RECORD_ID_BITS) | id;

	if (piste_unlikely(is_extended)) {
		cursor[0] = PISTE_RECORD_ID_EXTENDED;
		__builtin_memcpy(cursor + 1, &id, sizeof(id));
		__builtin_memcpy(cursor + 5, &ticks, sizeof(ticks));
		return cursor + PISTE_RECORD_EXTENDED_BYTES;
	}
	__builtin_memcpy(cursor, &header, sizeof(header));
	return cursor + PISTE_RECORD_COMPACT_BYTES;
}

static inline uint8_t *write_contexts(uint8_t *cursor, uint32_t contexts, int32_t thread_id, uint32_t cpu)
{
	if (contexts & PISTE_CONTEXT_VTID) {
		__builtin_memcpy(cursor, &thread_id, sizeof(thread_id));
		cursor += sizeof(thread_id);
	}
	if (contexts & PISTE_CONTEXT_CPU_ID) {
		uint16_t cpu_id = (uint16_t)cpu;

		__builtin_memcpy(cursor, &cpu_id, sizeof(cpu_id));
		cursor += sizeof(cpu_id);
	}
	return cursor;
}

uint32_t piste_thread_current_cpu(void)
{
	return piste_likely(piste_thread_has_area()) ? (uint32_t)piste_thread_word(piste_this_module.offsets.cpu)
	                                             : piste_thread_cpu();
}

static uint32_t current_index(void)
{
	return piste_likely(piste_thread_has_area()) ? (uint32_t)piste_thread_word(piste_this_module.offsets.index)
	                                             : piste_thread_cpu();
}

/* The contexts beyond thread id and CPU, for the record that is being reserved. */
struct collected {
	struct piste_channel *channel; /* Whose they are; NULL: of none yet. */
	uint32_t bytes;
	uint8_t context[PISTE_MORE_BYTES_MAX];
};

static uint8_t *reserve_with(struct progress *record, volatile uint64_t *slot);

/* Reserves the event's record in the channel that `slot` names, and writes its header and contexts. NULL if the channel does not
 * record, or the record was lost and counted. Without room for what is `collected`, a channel that needs it takes another way. */
static inline __attribute__((always_inline)) uint8_t *reserve_in(struct progress *record, volatile uint64_t *slot,
                                                                 struct collected *collected)
{
	uint64_t word = piste_load_acquire(slot), position, ticks, unit, units, offset;
	bool is_extended;
	struct piste_channel *channel;
	struct piste_ring_header *ring;
	uint32_t id, index, cpu, more_bytes = 0;
	enum piste_room room;
	size_t extension_bytes;
	uint8_t *cursor;

look:
	channel = piste_slot_channel(word);
	if (!channel)
		return NULL;
	id = piste_slot_id(word);
	/* Relaxed: nothing is read because of it. A writer that reads an old value stops where the consumer ended the sub-buffer, because
	 * entering the next one checks again. A wiped or replaced page has no rings. */
	if (piste_unlikely(!piste_load_relaxed(&piste_channel_header(channel)->active_key)))
		goto inactive;
	if (collected && collected->channel != channel) {
		collected->channel = channel;
		collected->bytes = piste_contexts_write(channel, record->ip, collected->context);
	} else if (!collected && piste_unlikely(channel->more_count)) {
		return reserve_with(record, slot);
	}
	if (collected)
		more_bytes = collected->bytes;
	index = current_index();
	cpu = piste_thread_current_cpu();
	if (piste_unlikely(index >= channel->ring_count))
		goto inactive;
	ring = piste_channel_ring(channel, index);
	for (;;) {
		/* ORDER ring.position (acquire): our stores come after the reader's copy, which the writer that entered the
		 * sub-buffer has seen. Pairs with ring.c. */
		position = piste_load_acquire(&ring->position);
		ticks = piste_clock_ticks(channel->clock, (uint32_t)(position >> PISTE_POSITION_CPU_SHIFT) !=
		                                                  (cpu & PISTE_POSITION_CPU_MASK));
		/* R1: the clock may be read before the position. It is then not behind that of the last writer if that writer was
		 * on this CPU, so the CPU must be the same before and after. */
		if (piste_unlikely(piste_thread_current_cpu() != cpu))
			goto look;
		/* R3. ORDER ring.window (acquire): the record of that window is committed before this one. */
		is_extended = id >= PISTE_RECORD_ID_EXTENDED || piste_load_acquire(&ring->window) != window_of(ticks);
		extension_bytes = is_extended ? PISTE_RECORD_EXTENDED_BYTES - PISTE_RECORD_COMPACT_BYTES : 0;
		units = (channel->lead_bytes + more_bytes + record->bytes + extension_bytes + PISTE_UNIT_BYTES - 1) /
		        PISTE_UNIT_BYTES;
		unit = position & PISTE_POSITION_UNITS_MASK;
		offset = unit & (channel->subbuf_units - UINT64_C(1));
		if (piste_unlikely(offset == 0 || offset + units > channel->subbuf_units)) {
			room = piste_ring_make_room(channel, index, units);
			if (room == PISTE_ROOM_MADE)
				continue;
			if (room == PISTE_ROOM_INACTIVE)
				goto inactive;
			return NULL;
		}
		if (piste_likely(piste_swap_if(&ring->position, &position,
		                               (unit + units) | (uint64_t)(cpu & PISTE_POSITION_CPU_MASK)
		                                                        << PISTE_POSITION_CPU_SHIFT)))
			break;
	}
	record->channel = channel;
	record->ring = ring;
	record->units = (uint32_t)units;
	record->window = window_of(ticks);
	record->first_mark = (uint8_t)(unit >> channel->ring_units_log2) | PISTE_MARK_TAG_ALWAYS | PISTE_MARK_HEAD;
	unit &= ((uint64_t)1 << channel->ring_units_log2) - 1;
	record->marks = (uint8_t *)ring + channel->marks_offset_bytes + unit;
	open_view(channel, id, index, ring);
	cursor = write_contexts(write_header((uint8_t *)ring + PISTE_RING_DATA_OFFSET_BYTES + unit * PISTE_UNIT_BYTES,
	                                     id, ticks, is_extended),
	                        channel->contexts, piste_thread_id(), cpu);
	if (collected) {
		__builtin_memcpy(cursor, collected->context, more_bytes);
		cursor += more_bytes;
	}
	return cursor;

inactive:
	/* The channel is stopped, unless another channel has replaced it: then the slot names that one. */
	if (piste_load_relaxed(slot) == word)
		return NULL;
	word = piste_load_acquire(slot);
	goto look;
}

static uint8_t *reserve(struct progress *record, volatile uint64_t *slot)
{
	return reserve_in(record, slot, NULL);
}

static __attribute__((noinline)) uint8_t *reserve_with(struct progress *record, volatile uint64_t *slot)
{
	struct collected collected;

	collected.channel = NULL;
	collected.bytes = 0;
	return reserve_in(record, slot, &collected);
}

static void commit(const struct progress *record)
{
	piste_tell_space_given(record->ring);
	piste_mark(record->marks, record->units, record->first_mark);
	if (piste_unlikely(piste_load_relaxed(&record->ring->window) != record->window))
		open_window(record->channel, record->ring, record->window);
}

/* Reserves the event's record in the channel that a slot's `word` names, straight, as the fast path of piste/ring.h does, which says why of
 * each step. Gives up if anything is unusual. */
static inline __attribute__((always_inline)) struct piste_place reserve_straight(uint64_t word, uint64_t bytes)
{
	struct piste_place none = {NULL, 0};
#if PISTE_FAST_PATH && PISTE_PLAIN_STORES
	struct piste_channel *channel = piste_slot_channel(word);
	uint64_t index = piste_thread_word(piste_this_module.offsets.index), position, ticks, unit, units;
	int64_t cpu_offset = piste_this_module.offsets.cpu;
	uint32_t id = piste_slot_id(word), cpu;
	bool is_extended = id >= PISTE_RECORD_ID_EXTENDED;
	int32_t thread_id = piste_known_thread_id;
	struct piste_ring_header *ring;
	struct piste_place place;

	/* A wiped or replaced page is of no clock. */
	if (piste_unlikely(!channel || !thread_id || channel->clock != PISTE_CLOCK_TSC || !piste_thread_has_area() ||
	                   index >= channel->ring_count || channel->more_count))
		return none;
	ring = piste_channel_ring(channel, (uint32_t)index);
	position = piste_load_acquire(&ring->position);
	cpu = (uint32_t)(position >> PISTE_POSITION_CPU_SHIFT);
	if (piste_unlikely(!piste_thread_word_is(cpu_offset, cpu)))
		return none;
	ticks = __builtin_ia32_rdtsc();
	if (piste_unlikely(!piste_thread_word_is(cpu_offset, cpu)))
		return none;
	if (piste_unlikely(piste_load_acquire(&ring->window) != window_of(ticks)))
		return none;
	bytes += channel->lead_bytes;
	if (is_extended)
		bytes += PISTE_RECORD_EXTENDED_BYTES - PISTE_RECORD_COMPACT_BYTES;
	units = (bytes + PISTE_UNIT_BYTES - 1) / PISTE_UNIT_BYTES;
	if (piste_unlikely(units > PISTE_PLACE_UNITS_MAX ||
	                   ((position + units - 1) & (channel->subbuf_units - UINT64_C(1))) < units))
		return none;
	unit = position;
	if (piste_unlikely(!piste_swap_if(&ring->position, &unit, position + units)))
		return none;
	unit = position & (((uint64_t)1 << channel->ring_units_log2) - 1);
	place.cursor = write_header((uint8_t *)ring + PISTE_RING_DATA_OFFSET_BYTES + unit * PISTE_UNIT_BYTES, id, ticks,
	                            is_extended);
	place.cursor = write_contexts(place.cursor, channel->contexts, thread_id, cpu);
	place.marks = (uint64_t)(uintptr_t)((uint8_t *)ring + channel->marks_offset_bytes + unit) |
	              units << PISTE_PLACE_UNITS_SHIFT |
	              (((position >> channel->ring_units_log2) & PISTE_MARK_LAP_MASK) | PISTE_MARK_TAG_ALWAYS |
	               PISTE_MARK_HEAD)
	                      << PISTE_PLACE_FIRST_SHIFT;
	return place;
#else
	(void)word;
	(void)bytes;
	return none;
#endif
}

struct piste_place piste_record_only(struct piste_event *event, uint64_t bytes)
{
	/* ORDER event.slot (acquire): pairs with modules.c. */
	return reserve_straight(piste_load_acquire(&event->only), bytes);
}

/* The next channel's record, the straight way if that can be. */
static uint8_t *reserve_next(struct progress *record, volatile uint64_t *slot)
{
	struct piste_place place = reserve_straight(piste_load_acquire(slot), record->bytes);

	record->straight_marks = place.marks;
	return piste_likely(place.cursor) ? place.cursor : reserve(record, slot);
}

/* The next of the slots at which `record` looks. NULL: there are no more. */
static volatile uint64_t *next_slot(struct progress *record)
{
	/* ORDER event.slot (acquire): a slot is cleared or set before it is used. Pairs with modules.c. */
	while (record->index >= piste_load_acquire(&record->slots->used)) {
		if (piste_likely(!piste_load_acquire(&record->slots->next)))
			return NULL;
		record->number += PISTE_SLOTS_COUNT - record->index;
		record->slots = piste_load_acquire(&record->slots->next);
		record->index = 0;
	}
	record->number++;
	return &record->slots->word[record->index++];
}

static void end_filters(struct piste_record *record)
{
	if (record->filtered != (uint8_t *)record->scratch)
		piste_filter_scratch_done(record->filtered, record->filtered_bytes);
}

static bool passes(const struct progress *record, uint32_t slot)
{
	const struct piste_filter *filter = record->passes ? NULL : piste_event_filter(record->event, slot);

	return !filter || piste_filter_passes(filter, record->filtered, record->filtered_bytes);
}

static __attribute__((noinline)) uint8_t *next(struct piste_record *piste_record)
{
	struct progress *record = (struct progress *)piste_record;
	volatile uint64_t *slot;

	if (!record->slots) {
		record->slots = &record->event->slots;
		record->index = 0;
		record->number = 0;
		record->straight_marks = 0;
		record->channel = NULL;
		/* An event whose fields find no memory for filters is recorded. */
		if (piste_unlikely(!record->filtered && record->event->filters)) {
			record->passes = false;
			record->filtered = piste_filter_scratch(record->filtered_bytes);
			if (record->filtered)
				return record->filtered;
		}
	} else if (record->straight_marks) {
		piste_place_commit((struct piste_place){NULL, record->straight_marks});
	} else if (piste_likely(record->channel != NULL)) {
		commit(record);
	}
	while ((slot = next_slot(record)) != NULL) {
		uint8_t *cursor;

		if (piste_unlikely(record->filtered != NULL) && !passes(record, record->number - 1))
			continue;
		cursor = reserve_next(record, slot);
		if (cursor)
			return cursor;
	}
	if (piste_unlikely(record->filtered != NULL))
		end_filters(piste_record);
	return NULL;
}

uint8_t *piste_record_next(struct piste_record *piste_record)
{
	struct progress *record = (struct progress *)piste_record;

	/* What most filters do with most events comes first. */
	if (piste_unlikely(record->filtered && !record->slots)) {
		/* ORDER event.filter (acquire): pairs with modules.c. */
		const struct piste_filter *filter = piste_load_acquire(&record->event->filter);

		record->passes = filter != NULL;
		if (filter && !piste_filter_passes(filter, record->filtered, record->filtered_bytes))
			return NULL;
	}
	return next(piste_record);
}
