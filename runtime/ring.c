/* SPDX-License-Identifier: MIT */
/*
 * The slow path: entering the next sub-buffer, and what happens when there is none. Once per sub-buffer; the memory and its invariants are
 * in piste/abi/ring.h, the fast path in piste/ring.h, the general path in record.c.
 *
 * Operations that may run together, on one ring: any number of reserve and commit, make_room (one of several racers wins the
 * position's swap, the others look again), the reader's copy and release, the consumer's end of a sub-buffer.
 *
 * ORDER ring.ended   here: store release after `discarded`   | crates/ring: load acquire
 * ORDER ring.space   here: load acquire before the wait      | crates/ring: add release after consumed, then wake
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PISTE_HEADER_UNITS (sizeof(struct piste_packet_header) / PISTE_UNIT_BYTES)

enum entrance { ENTRANCE_OPEN, ENTRANCE_FULL };

static uint64_t consumed_sequence(struct piste_ring_header *ring)
{
	/* ORDER ring.consumed (acquire): the reader's copy of the sub-buffer is done before we write to it. Pairs with crates/ring. */
	return piste_load_acquire(&ring->consumed) >> PISTE_CONSUMED_SHIFT;
}

static uint8_t *marks_of(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence)
{
	return (uint8_t *)ring + channel->marks_offset_bytes +
	       (sequence & (channel->subbuf_count - UINT64_C(1))) * channel->subbuf_units;
}

static struct piste_subbuf *subbuf_of(const struct piste_channel *channel, struct piste_ring_header *ring,
                                      uint64_t sequence)
{
	uint64_t ring_bytes = (uint64_t)channel->subbuf_units * channel->subbuf_count * PISTE_UNIT_BYTES;
	struct piste_subbuf *subbufs =
	        (struct piste_subbuf *)((uint8_t *)ring + PISTE_RING_DATA_OFFSET_BYTES + ring_bytes);

	return subbufs + (sequence & (channel->subbuf_count - 1));
}

static uint8_t tag_of(const struct piste_channel *channel, uint64_t sequence)
{
	uint64_t lap = sequence >> (channel->ring_units_log2 - channel->subbuf_log2);

	return (uint8_t)(PISTE_MARK_TAG_ALWAYS | (lap & PISTE_MARK_LAP_MASK));
}

/* Whether every unit of the sub-buffer is committed; counts its records. */
static bool is_complete(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence,
                        uint64_t *records)
{
	uint64_t *marks = (uint64_t *)marks_of(channel, ring, sequence);
	uint64_t tags = 0x0101010101010101u * tag_of(channel, sequence), heads = 0x8080808080808080u, found = 0;
	uint32_t words = channel->subbuf_units / sizeof(*marks);

	for (uint32_t word = 0; word < words; word++) {
		/* ORDER ring.mark (acquire): the previous lap's stores come before ours. */
		uint64_t mark = piste_load_acquire(&marks[word]);

		if (((mark ^ tags) & ~heads) != 0)
			return false;
		found += (uint64_t)__builtin_popcountll(mark & heads);
	}
	*records = found;
	return true;
}

/* R2, R4: whether `sequence` may be entered, in a ring that overwrites. Moves `consumed` past what it overwrites. */
static enum entrance open_by_overwriting(const struct piste_channel *channel, struct piste_ring_header *ring,
                                         uint64_t sequence)
{
	uint64_t oldest = sequence - channel->subbuf_count, records;
	uint64_t consumed = piste_load_acquire(&ring->consumed);

	if (!is_complete(channel, ring, oldest, &records))
		return ENTRANCE_FULL;
	while (consumed >> PISTE_CONSUMED_SHIFT <= oldest) {
		if (consumed & PISTE_CONSUMED_CLAIMED)
			return ENTRANCE_FULL;
		if (piste_swap_if(&ring->consumed, &consumed, (oldest + 1) << PISTE_CONSUMED_SHIFT)) {
			piste_add_relaxed(&ring->overwritten_records, records);
			piste_add_relaxed(&ring->overwritten_packets, oldest + 1 - (consumed >> PISTE_CONSUMED_SHIFT));
			break;
		}
	}
	return ENTRANCE_OPEN;
}

static enum entrance entrance(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence)
{
	if (sequence < channel->subbuf_count)
		return ENTRANCE_OPEN;
	if (channel->loss_mode == PISTE_LOSS_OVERWRITE)
		return open_by_overwriting(channel, ring, sequence);
	return consumed_sequence(ring) > sequence - channel->subbuf_count ? ENTRANCE_OPEN : ENTRANCE_FULL;
}

/* Waits until the consumer has made space. False: the time is over. */
static bool wait_for_space(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence,
                           uint64_t *deadline_ns)
{
	uint64_t now_ns = piste_clock_monotonic(), left_ns;
	struct timespec timeout;
	int saved_errno = errno;
	uint32_t space;

	if (channel->block_timeout_us == UINT32_MAX)
		*deadline_ns = UINT64_MAX;
	else if (*deadline_ns == 0)
		*deadline_ns = now_ns + channel->block_timeout_us * UINT64_C(1000);
	if (now_ns >= *deadline_ns)
		return false;
	/* In pieces, so that a channel that stops meanwhile lets go even when nobody wakes us. */
	left_ns = *deadline_ns - now_ns;
	if (left_ns > 100000000)
		left_ns = 100000000;
	timeout.tv_sec = 0;
	timeout.tv_nsec = (long)left_ns;
	piste_add_relaxed(&ring->waiters, 1);
	/* ORDER ring.space (acquire): consumed is looked at again after space_futex, so that no wake is missed. */
	space = piste_load_acquire(&ring->space_futex);
	if (entrance(channel, ring, sequence) == ENTRANCE_FULL)
		syscall(SYS_futex, &ring->space_futex, FUTEX_WAIT, space, &timeout, NULL, 0);
	piste_add_relaxed(&ring->waiters, (uint32_t)-1);
	errno = saved_errno;
	return true;
}

/* Records that the ring has discarded so far. */
static uint64_t discarded(const struct piste_ring_header *ring)
{
	return piste_load_relaxed(&ring->discarded_full) + piste_load_relaxed(&ring->discarded_too_large);
}

/* Ends `sequence` at `offset` units; the position is past it already. */
static void end_subbuf(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence,
                       uint64_t offset)
{
	struct piste_subbuf *subbuf = subbuf_of(channel, ring, sequence);

	piste_store_relaxed(&subbuf->discarded, discarded(ring));
	/* ORDER ring.ended (release): `discarded` is visible before. Pairs with crates/ring. */
	piste_store_release(&subbuf->ended, (sequence + 1) << PISTE_ENDED_SEQUENCE_SHIFT | offset);
	piste_tell_space_given(ring);
	piste_mark(marks_of(channel, ring, sequence) + offset, channel->subbuf_units - offset,
	           tag_of(channel, sequence));
}

/* Stores the number of discarded records for `sequence`, which is full to its last byte and which nobody ends. Called before
 * the position moves on, so that whoever sees the new position sees the number. A thread that was delayed may store an older,
 * smaller number later; readers keep the largest one. `ended` must not be stored here: a delayed store would damage a later
 * lap. */
static void settle_full_subbuf(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence)
{
	piste_store_relaxed(&subbuf_of(channel, ring, sequence)->discarded, discarded(ring));
}

/* Writes the packet header of the sub-buffer that was entered at `time`. */
static void begin_subbuf(const struct piste_channel *channel, struct piste_ring_header *ring, uint64_t sequence,
                         uint64_t time)
{
	uint64_t index = sequence & (channel->subbuf_count - 1);
	struct piste_packet_header *header =
	        (struct piste_packet_header *)((uint8_t *)ring + PISTE_RING_DATA_OFFSET_BYTES +
	                                       index * channel->subbuf_units * PISTE_UNIT_BYTES);

	header->timestamp_begin = time;
	piste_tell_space_given(ring);
	piste_mark(marks_of(channel, ring, sequence), PISTE_HEADER_UNITS, tag_of(channel, sequence));
}

static void touch(struct piste_channel_header *header, uint32_t index)
{
	piste_or_relaxed(&header->touched[index / 64], UINT64_C(1) << index % 64);
}

/* Makes the consumer look at the channel's rings. When two threads ring at once, either value is a new one. */
static void ring_bell(struct piste_channel *attached, const struct piste_channel *channel, uint64_t time)
{
	uint32_t *bell = (uint32_t *)((uint8_t *)attached + channel->bell_offset_bytes);

	/* ORDER ring.bell (release): what there is to see is visible before. Pairs with crates/ring/src/board.rs. */
	piste_store_release(bell, (uint32_t)time);
}

/* Copies what is known of a channel, whole: false when it is gone, with the rest of the page or before it was read. */
static bool copy_of_live(struct piste_channel *channel, struct piste_channel *copy)
{
	*copy = *channel;
	/* The page goes all at once, so what was read before a key that is there was there. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return piste_load_relaxed(&channel->key) != 0;
}

enum piste_room piste_ring_make_room(struct piste_channel *attached, uint32_t index, uint64_t units)
{
	struct piste_channel copy, *channel = &copy;
	uint64_t subbuf_units, deadline_ns = 0;
	struct piste_channel_header *header;
	struct piste_ring_header *ring;

	if (!copy_of_live(attached, &copy))
		return PISTE_ROOM_INACTIVE;
	header = (struct piste_channel_header *)((uint8_t *)attached + copy.header_offset_bytes);
	ring = (struct piste_ring_header *)((uint8_t *)(header + 1) + index * copy.ring_stride_bytes);
	subbuf_units = copy.subbuf_units;
	for (;;) {
		uint64_t position, unit, offset, sequence, time;
		uint32_t cpu;

		/* Stopped, or gone: not a loss. */
		if (!piste_load_relaxed(&header->active_key))
			return PISTE_ROOM_INACTIVE;
		if (units > subbuf_units - PISTE_HEADER_UNITS) {
			piste_add_relaxed(&ring->discarded_too_large, 1);
			touch(header, index);
			ring_bell(attached, channel, piste_clock_ticks(channel->clock, 1));
			return PISTE_ROOM_NONE;
		}
		/* ORDER ring.position (acquire): as in reserve. */
		position = piste_load_acquire(&ring->position);
		unit = position & PISTE_POSITION_UNITS_MASK;
		offset = unit & (subbuf_units - 1);
		if (offset != 0 && offset + units <= subbuf_units)
			return PISTE_ROOM_MADE;
		sequence = (unit >> channel->subbuf_log2) + (offset != 0);
		if (entrance(channel, ring, sequence) == ENTRANCE_FULL) {
			/* Another one may have entered, and even filled, the sub-buffer meanwhile. */
			if (piste_load_acquire(&ring->position) != position)
				continue;
			if (channel->loss_mode == PISTE_LOSS_BLOCK &&
			    wait_for_space(channel, ring, sequence, &deadline_ns))
				continue;
			piste_add_relaxed(&ring->discarded_full, 1);
			return PISTE_ROOM_NONE;
		}
		if (sequence == 0)
			touch(header, index);
		if (offset == 0 && sequence > 0)
			settle_full_subbuf(channel, ring, sequence - 1);
		piste_tell_space_taken(ring);
		time = piste_clock_ticks(channel->clock, 1);
		cpu = piste_thread_cpu();
		/* ORDER ring.position (acquire and release): who writes to the sub-buffer has seen that it may. */
		if (!piste_swap_if(&ring->position, &position,
		                   ((sequence << channel->subbuf_log2) + PISTE_HEADER_UNITS) |
		                           (uint64_t)(cpu & PISTE_POSITION_CPU_MASK) << PISTE_POSITION_CPU_SHIFT))
			continue;
		if (offset != 0)
			end_subbuf(channel, ring, sequence - 1, offset);
		begin_subbuf(channel, ring, sequence, time);
		ring_bell(attached, channel, time);
		return PISTE_ROOM_MADE;
	}
}
