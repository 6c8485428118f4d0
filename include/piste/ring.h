/* SPDX-License-Identifier: MIT */
/*
 * The fast path: reserve space in a ring, and commit what was written there. It is header-only because it determines the cost of an
 * event; what happens once per sub-buffer is in the runtime (runtime/ring.c). For the memory and its invariants R1 to R7, see
 * abi/ring.h.
 *
 * ORDER ring.position   writer: load acquire, swap acq_rel           | pairs with writers and crates/ring (end_current)
 * ORDER ring.mark       writer: store release                        | crates/ring: load acquire before the copy
 * ORDER ring.consumed   runtime/ring.c: load acquire before entering | crates/ring: store release after the copy
 * ORDER ring.active     writer: load relaxed, see below              | crates/ring: store
 *
 * A signal handler that also records may interrupt every function at any instruction: the handler's record takes the space after the
 * interrupted one, and the interrupted swap fails or the interrupted record is committed later.
 *
 * Cost: the clock and one locked instruction, which overlap. The locked instruction waits for every older store, so nothing here
 * should spill to the stack: these functions take and return values, not pointers to structs.
 */
#ifndef PISTE_RING_H
#define PISTE_RING_H

#include <stddef.h>
#include <stdint.h>

#include "abi/protocol.h"
#include "abi/ring.h"
#include "atomic.h"
#include "clock.h"
#include "thread.h"

/* A channel that this process has attached: a private page in front of the mapping of the channel's memory. It does not change
 * after it is published. When the channel goes, zero pages replace the page and the mapping, and fork wipes the page
 * (ARCHITECTURE.md: "Memory of a gone channel", "A channel does not survive fork"). Both can happen between any two loads of a call
 * that has begun, so on the fast path each value must be harmless as zero, and the slow path works on a copy. */
struct piste_channel {
	uint32_t ring_count;
	uint32_t contexts;
	uint32_t lead_bytes; /* Bytes of a record before its fields: compact header and contexts. */
	uint32_t clock;
	uint32_t subbuf_units;       /* Units of a sub-buffer, a power of two ... */
	uint32_t subbuf_log2;        /* ... and its logarithm. */
	uint32_t ring_units_log2;    /* Logarithm of the units of a ring. */
	uint32_t marks_offset_bytes; /* From the start of a ring. */
	uint32_t data_offset_bytes;  /* From the start of a ring. */
	uint32_t subbuf_count;
	uint64_t rings_offset_bytes; /* From this struct to ring 0. */
	uint64_t ring_stride_bytes;
	uint64_t bell_offset_bytes; /* From this struct; without a board, it leads to private memory. */
	uint32_t loss_mode;
	uint32_t block_timeout_us;
	uint32_t key;
	uint64_t mapped_bytes; /* Including this page. */
};

/* Distance from struct piste_channel to the channel header: the largest page size in use. Only the first page is touched. */
#define PISTE_CHANNEL_SPACE_BYTES 65536u

/* Where the ring index and the CPU of a thread are: offsets from the thread pointer, for piste_thread_word(). */
struct piste_thread_offsets {
	int64_t index;
	int64_t cpu;
};

/* How one word of an event's state holds both the channel that records the event and the event's id in that channel: channels are at
 * multiples of 4096 below 2^48, so the id has the low 12 and the high 16 bits. */
#define PISTE_ENABLED_CHANNEL_MASK 0x0000fffffffff000u

static inline __attribute__((always_inline)) struct piste_channel *piste_enabled_channel(uint64_t enabled)
{
	return (struct piste_channel *)(uintptr_t)(enabled & PISTE_ENABLED_CHANNEL_MASK);
}

static inline __attribute__((always_inline)) uint32_t piste_enabled_id(uint64_t enabled)
{
	return (uint32_t)(enabled & 0xfff) | (uint32_t)(enabled >> 48 << 12);
}

#ifdef __cplusplus
extern "C" {
#endif

enum piste_room {
	PISTE_ROOM_MADE,     /* Try again. */
	PISTE_ROOM_NONE,     /* The record is lost and counted. */
	PISTE_ROOM_INACTIVE, /* The channel does not record. */
};

/* Makes room for a record of `units` units in the ring that the thread writes to: enters the next sub-buffer, or waits for space if
 * the channel blocks. Safe in signal handlers. */
enum piste_room piste_make_room(struct piste_channel *channel, uint32_t index, uint64_t units);

#ifdef __cplusplus
}
#endif

static inline __attribute__((always_inline)) struct piste_channel_header *
piste_channel_header(struct piste_channel *channel)
{
	return (struct piste_channel_header *)((uint8_t *)channel + PISTE_CHANNEL_SPACE_BYTES);
}

static inline __attribute__((always_inline)) struct piste_ring_header *piste_channel_ring(struct piste_channel *channel,
                                                                                          uint32_t index)
{
	return (struct piste_ring_header *)((uint8_t *)channel + channel->rings_offset_bytes +
	                                    index * channel->ring_stride_bytes);
}

/* The space of one record, between reserve and commit. */
struct piste_record {
	uint8_t *cursor; /* Where to write the fields; NULL if nothing was reserved. */
	struct piste_ring_header *ring;
	struct piste_channel *channel;
	uint64_t unit; /* Position of the record. */
	uint64_t units;
	uint64_t time;
};

/* Reserves a record for the event whose state contains `slot`, and writes its header and contexts. The cursor is NULL if the channel
 * is not recording, or if the record was lost and counted. Safe in signal handlers and in any thread. */
static inline __attribute__((always_inline)) struct piste_record
piste_reserve(const struct piste_thread_offsets *offsets, volatile uint64_t *slot, size_t payload_bytes)
{
	struct piste_record record = {NULL, NULL, NULL, 0, 0, 0};
	uint64_t enabled = piste_load_relaxed(slot), position, offset;
	uint32_t id, index, cpu, contexts, subbuf_units;
	size_t body_bytes, extension_bytes;
	struct piste_channel *channel;
	enum piste_room room;

look:
	channel = piste_enabled_channel(enabled);
	id = piste_enabled_id(enabled);
	index = piste_thread_word(offsets->index);
	cpu = piste_thread_word(offsets->cpu);
	/* ORDER ring.active (relaxed): nothing is read because of it. A writer that reads an old value stops where the consumer
	 * ended the sub-buffer, because entering the next one checks again. A wiped or replaced page has no rings. */
	if (piste_unlikely(!piste_load_relaxed(&piste_channel_header(channel)->active_key) ||
	                   index >= channel->ring_count))
		goto inactive;
	record.channel = channel;
	contexts = channel->contexts;
	body_bytes = channel->lead_bytes + payload_bytes;
	subbuf_units = channel->subbuf_units;
	record.ring = piste_channel_ring(channel, index);
	for (;;) {
		/* ORDER ring.position (acquire): our stores come after the reader's copy, which the writer that entered the
		 * sub-buffer has seen. Pairs with runtime/ring.c. */
		position = piste_load_acquire(&record.ring->position);
		record.time = piste_clock_ticks(channel->clock, ((position ^ cpu) & PISTE_POSITION_CPU_MASK) != 0);
		/* R1: the clock may be read before the position. It is then not behind that of the last writer if that writer was
		 * on this CPU, so the CPU must be the same before and after. */
		if (piste_unlikely(piste_thread_word(offsets->cpu) != cpu))
			goto look;
		extension_bytes = 0;
		/* Relaxed: the time of any committed record will do (R3). */
		if (piste_unlikely(id >= PISTE_RECORD_ID_EXTENDED ||
		                   (record.time - piste_load_relaxed(&record.ring->last_time)) >>
		                           PISTE_RECORD_TIME_BITS)) {
			piste_keep_branch();
			extension_bytes = PISTE_RECORD_EXTENDED_BYTES - PISTE_RECORD_COMPACT_BYTES;
		}
		record.units = (body_bytes + extension_bytes + PISTE_UNIT_BYTES - 1) / PISTE_UNIT_BYTES;
		record.unit = position >> PISTE_POSITION_SHIFT;
		offset = record.unit & (subbuf_units - 1);
		if (piste_unlikely(offset == 0 || offset + record.units > subbuf_units)) {
			piste_keep_branch();
			room = piste_make_room(channel, index, record.units);
			if (room == PISTE_ROOM_MADE)
				continue;
			if (room == PISTE_ROOM_INACTIVE)
				goto inactive;
			return record;
		}
		if (piste_likely(piste_swap_if(&record.ring->position, &position,
		                               (record.unit + record.units) << PISTE_POSITION_SHIFT |
		                                       (cpu & PISTE_POSITION_CPU_MASK))))
			break;
	}
	record.cursor = (uint8_t *)record.ring + channel->data_offset_bytes +
	                (record.unit & (((uint64_t)1 << channel->ring_units_log2) - 1)) * PISTE_UNIT_BYTES;
	if (piste_likely(extension_bytes == 0)) {
		uint32_t header = (uint32_t)(record.time << PISTE_RECORD_ID_BITS) | id;

		__builtin_memcpy(record.cursor, &header, sizeof(header));
		record.cursor += PISTE_RECORD_COMPACT_BYTES;
	} else {
		piste_keep_branch();
		record.cursor[0] = PISTE_RECORD_ID_EXTENDED;
		__builtin_memcpy(record.cursor + 1, &id, sizeof(id));
		__builtin_memcpy(record.cursor + 5, &record.time, sizeof(record.time));
		record.cursor += PISTE_RECORD_EXTENDED_BYTES;
	}
	if (contexts & PISTE_CONTEXT_VTID) {
		int32_t thread_id = piste_thread_id_get();

		__builtin_memcpy(record.cursor, &thread_id, sizeof(thread_id));
		record.cursor += sizeof(thread_id);
	}
	if (contexts & PISTE_CONTEXT_CPU_ID) {
		uint16_t cpu_id = (uint16_t)cpu;

		__builtin_memcpy(record.cursor, &cpu_id, sizeof(cpu_id));
		record.cursor += sizeof(cpu_id);
	}
	return record;

inactive:
	/* The channel is stopped, unless another channel has replaced it: then the slot names that one. */
	if (piste_load_relaxed(slot) == enabled)
		return record;
	enabled = piste_load_acquire(slot);
	goto look;
}

/* Commits `units` units: their marks get the tag of `first`; the first mark gets `first` itself, last. Short records use single stores
 * that do not overlap: a wider store that overlaps the first mark would delay the next locked instruction (by 4 ns where measured).
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

static inline __attribute__((always_inline)) void piste_commit(struct piste_record record)
{
	struct piste_channel *channel = record.channel;
	uint64_t lap = record.unit >> channel->ring_units_log2;
	uint64_t unit = record.unit & (((uint64_t)1 << channel->ring_units_log2) - 1);
	uint8_t *marks = (uint8_t *)record.ring + channel->marks_offset_bytes + unit;
	uint8_t tag = (uint8_t)(PISTE_MARK_TAG_ALWAYS | (lap & PISTE_MARK_LAP_MASK));

	piste_tell_space_given(record.ring);
	piste_mark(marks, record.units, (uint8_t)(tag | PISTE_MARK_HEAD));
	/* After the commit (R3). Relaxed: an older value only makes a later record use an extended header. */
	piste_store_relaxed(&record.ring->last_time, record.time);
}

#endif
