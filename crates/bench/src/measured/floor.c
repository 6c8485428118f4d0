/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What an event costs at least. A tracer cannot be cheaper than reading the clock and storing the record; these loops do only
 * that, into a buffer of the size of the tracers' rings, with no safety at all: no threads, no signals, no reader. Beside them the loop with nothing
 * in it, what people write who have no tracer (fprintf), and a reference that shows how fast the CPU is at the moment.
 */
#include "rounds.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define RING_BYTES (1u << 20)
#define EVENT_ID   1u

/* Of each thread: one that shared them with another would wait for it. */
static __thread _Alignas(4096) uint8_t ring[RING_BYTES + PAYLOAD_BYTES + 128];
static __thread volatile uint64_t position; /* In memory, as any record of what was written must be. */
static FILE *nowhere;

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static inline uint8_t *space(uint32_t bytes)
{
	uint8_t *place = ring + (position & (RING_BYTES - 1));

	position += bytes;
	return place;
}

static inline void store_number(int32_t value)
{
	uint32_t header = (uint32_t)(ticks() << 5) | EVENT_ID;
	uint8_t *place = space(8);

	memcpy(place, &header, sizeof(header));
	memcpy(place + sizeof(header), &value, sizeof(value));
}

/* As many bytes of fields as the program was compiled for, with the next record aligned. */
static inline void store_payload(void)
{
	static const uint8_t bytes[PAYLOAD_BYTES] = {1};
	uint32_t header = (uint32_t)(ticks() << 5) | EVENT_ID;
	uint8_t *place = space((sizeof(header) + PAYLOAD_BYTES + 7) / 8 * 8);

	memcpy(place, &header, sizeof(header));
	memcpy(place + sizeof(header), bytes, PAYLOAD_BYTES);
}

/* 64 bytes of fields, and the header, which takes 8 with the next record's alignment. */
static inline void store_words(uint64_t value)
{
	uint32_t header = (uint32_t)(ticks() << 5) | EVENT_ID;
	uint64_t words[8] = {value, value, value, value, value, value, value, value};
	uint8_t *place = space(72);

	memcpy(place, &header, sizeof(header));
	memcpy(place + sizeof(header), words, sizeof(words));
}

/* "LW-UST" of the survey: clock_gettime, and a copy of time, id and value. */
static inline void store_survey(uint32_t value)
{
	struct {
		uint64_t time;
		uint32_t id;
		uint32_t value;
	} record;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	record.time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	record.id = EVENT_ID;
	record.value = value;
	memcpy(space(sizeof(record)), &record, sizeof(record));
}

static __thread volatile uint64_t read_clock;

/* Each step needs the result of the one before, and nothing else: it takes as long as the CPU's clock makes it. */
static void run_reference(uint64_t first, uint64_t count)
{
	uint64_t number = first | 1;

	for (uint64_t step = 0; step < count; step++) {
		number *= 0x9e3779b97f4a7c15u;
		__asm__ volatile("" : "+r"(number));
	}
}

VARIANT(record_none, __asm__ volatile("" : : "r"(event)))
VARIANT(record_clock, read_clock = ticks())
VARIANT(record_floor, store_number((int32_t)event))
VARIANT(record_payload, store_payload())
VARIANT(record_floor_words, store_words(event))
VARIANT(record_survey, store_survey((uint32_t)event))
VARIANT(record_fprintf, fprintf(nowhere, "v %d\n", (int)event))

static const struct variant variants[] = {
        {"none", record_none},       {"reference", run_reference},        {"clock", record_clock},
        {"floor", record_floor},     {"floor_words", record_floor_words}, {"survey", record_survey},
        {"fprintf", record_fprintf}, {"payload", record_payload},
};

int main(int argument_count, char **arguments)
{
	nowhere = fopen("/dev/null", "w");
	memset(ring, 1, sizeof(ring));
	return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof(variants[0]));
}
