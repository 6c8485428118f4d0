/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A ring that does the least that one with several writers can do: what Piste's rings are held to, beside the floor. Space is reserved by
 * compare-and-swap with the clock read inside, and committed by adding to a count for each sub-buffer. There is no reader, no session
 * that could stop, no second channel, and a full ring is overwritten. A ring for each CPU.
 */
#include "rounds.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define SUBBUF_BYTES     (256ul << 10)
#define SUBBUF_COUNT     4
#define RING_BYTES       (SUBBUF_BYTES * SUBBUF_COUNT)
#define RING_COUNT       1024
#define PACKET_BYTES     32
#define EVENT_ID         1u
#define TIME_BITS        27
#define ID_BITS          5
#define LIKELY(what)     __builtin_expect(!!(what), 1)
#define UNLIKELY(what)   __builtin_expect(!!(what), 0)
#define LOAD(place)      __atomic_load_n((place), __ATOMIC_RELAXED)
#define STORE(place, as) __atomic_store_n((place), (as), __ATOMIC_RELAXED)

struct ring {
	_Alignas(128) uint64_t position;
	uint64_t last_time;
	_Alignas(128) struct {
		_Alignas(64) uint64_t bytes;
	} committed[SUBBUF_COUNT];
	_Alignas(4096) uint8_t data[RING_BYTES];
};

static struct ring *rings[RING_COUNT];
static struct ring **volatile channel = rings;
static volatile int enabled = 1;

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

static inline uint32_t cpu(void)
{
	return ((volatile struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset))->cpu_id_start;
}

static inline uint64_t commit(struct ring *ring, uint64_t position, uint64_t bytes)
{
	return __atomic_fetch_add(&ring->committed[position / SUBBUF_BYTES % SUBBUF_COUNT].bytes, bytes,
	                          __ATOMIC_RELEASE);
}

/* Begins the next sub-buffer. False when another thread did. */
static __attribute__((noinline, cold)) int enter_next(struct ring *ring, uint64_t position)
{
	uint64_t next = (position | (SUBBUF_BYTES - 1)) + 1, moved = next + PACKET_BYTES;

	if (!__atomic_compare_exchange_n(&ring->position, &position, moved, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	commit(ring, position, next - position);
	memset(ring->data + next % RING_BYTES, 0, PACKET_BYTES);
	commit(ring, next, PACKET_BYTES);
	return 1;
}

static inline void record(int32_t value)
{
	uint64_t position, time, bytes;
	struct ring *ring;
	uint8_t *place;

	if (LIKELY(!enabled))
		return;
	ring = channel[cpu() % RING_COUNT];
	do {
		uint64_t last;

		position = LOAD(&ring->position);
		last = LOAD(&ring->last_time);
		time = ticks();
		bytes = UNLIKELY((time - last) >> TIME_BITS) ? 24 : 8;
		while (UNLIKELY(position % SUBBUF_BYTES == 0 || position % SUBBUF_BYTES + bytes > SUBBUF_BYTES)) {
			enter_next(ring, position);
			position = LOAD(&ring->position);
			time = ticks();
		}
	} while (UNLIKELY(!__atomic_compare_exchange_n(&ring->position, &(uint64_t){position}, position + bytes, 0,
	                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED)));
	STORE(&ring->last_time, time);
	place = ring->data + position % RING_BYTES;
	if (LIKELY(bytes == 8)) {
		uint32_t header = (uint32_t)(time << ID_BITS) | EVENT_ID;

		memcpy(place, &header, sizeof(header));
		memcpy(place + 4, &value, sizeof(value));
	} else {
		memset(place, 0xff, 8);
		memcpy(place + 8, &time, sizeof(time));
		memcpy(place + 16, &value, sizeof(value));
	}
	/* Whoever completes a sub-buffer would say so. */
	if (UNLIKELY((commit(ring, position, bytes) + bytes) % SUBBUF_BYTES == 0))
		__asm__ volatile("" ::: "memory");
}

VARIANT(record_plain, record((int32_t)event))

static const struct variant variants[] = {
        {"plain", record_plain},
};

int main(int argument_count, char **arguments)
{
	for (int index = 0; index < RING_COUNT; index++) {
		/* Touched when it is used. */
		rings[index] = aligned_alloc(4096, sizeof(struct ring));
		if (!rings[index])
			return 1;
	}
	return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof(variants[0]));
}
