/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * shapes SEED COUNT: events with fields of every kind, COUNT of each, with values that are drawn from few, so that conditions on them are
 * often fulfilled and often not. Each event has its number as its first field.
 */
#include <piste/tracepoint.h>
#include <stdlib.h>

PISTE_EVENT(shapes, plain, (uint32_t, number), (int8_t, i8), (uint16_t, u16), (int32_t, i32), (uint64_t, u64),
            (int64_t, i64), (float, f32), (double, f64))
PISTE_EVENT(shapes, texts, (uint32_t, number), (const char *, name), (int32_t, i32), PISTE_TEXT(note), (uint16_t, u16),
            (const char *, end))
PISTE_EVENT(shapes, lists, (uint32_t, number), PISTE_ARRAY(int16_t, fixed, 4), PISTE_SEQUENCE(double, list),
            (int32_t, i32), PISTE_SEQUENCE(uint8_t, bytes), (uint64_t, u64))
PISTE_EVENT(shapes, kinds, (uint32_t, number), PISTE_ENUM(kind, (TEA, 1), (COFFEE, 2), (GREEN_TEA, 1), (COLD, -1)),
            (int32_t, i32))

static uint64_t state;

static uint32_t draw(uint32_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

static const int64_t integers[] = {0,   1,    -1,    5,         6,         127,       -128,     255,
                                   300, -300, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
static const double numbers[] = {0, -0.0, 1.5, -1.5, 5, 1e300, -1e300, __builtin_nan(""), __builtin_inf()};
static const char *const names[] = {"",    "a",  "ada",      "adam",         "b", "tea", "green tea",
                                    "a*b", "ab", "\xc3\xa4", "a longer text"};

#define ONE_OF(list) (list)[draw(sizeof(list) / sizeof((list)[0]))]

int main(int argc, char **argv)
{
	uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;

	state = argc > 1 ? (uint64_t)atoll(argv[1]) : 0;
	for (uint32_t number = 0; number < count; number++) {
		int16_t fixed[4] = {(int16_t)ONE_OF(integers), (int16_t)ONE_OF(integers), (int16_t)ONE_OF(integers), 5};
		double list[3] = {ONE_OF(numbers), ONE_OF(numbers), ONE_OF(numbers)};
		uint8_t bytes[2] = {(uint8_t)ONE_OF(integers), (uint8_t)ONE_OF(integers)};
		const char *note = ONE_OF(names);

		piste(shapes, plain, number, (int8_t)ONE_OF(integers), (uint16_t)ONE_OF(integers),
		      (int32_t)ONE_OF(integers), (uint64_t)ONE_OF(integers), ONE_OF(integers), (float)ONE_OF(numbers),
		      ONE_OF(numbers));
		piste(shapes, texts, number, ONE_OF(names), (int32_t)ONE_OF(integers), note, strlen(note),
		      (uint16_t)ONE_OF(integers), ONE_OF(names));
		piste(shapes, lists, number, fixed, list, draw(4), (int32_t)ONE_OF(integers), bytes, draw(3),
		      (uint64_t)ONE_OF(integers));
		piste(shapes, kinds, number, (int32_t)draw(4) - 1, (int32_t)ONE_OF(integers));
	}
	return 0;
}
