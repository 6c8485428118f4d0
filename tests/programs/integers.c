/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * integers: for each line of its standard input, a number, records five events with that number and an integer of every kind, from the least
 * to the greatest one. Answers each line with "done".
 */
#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>

PISTE_EVENT(integers, all, (uint32_t, round), (uint32_t, which), (int8_t, i8), (int16_t, i16), (int32_t, i32),
            (int64_t, i64), (uint8_t, u8), (uint16_t, u16), (uint32_t, u32), (uint64_t, u64))

#define SIGNED(bits)                                                                                                   \
	{                                                                                                              \
		INT##bits##_MIN, -1, 0, 1, INT##bits##_MAX                                                             \
	}
#define UNSIGNED(bits)                                                                                                 \
	{                                                                                                              \
		0, 1, UINT##bits##_MAX / 2, UINT##bits##_MAX - 1, UINT##bits##_MAX                                     \
	}

static const int8_t i8[] = SIGNED(8);
static const int16_t i16[] = SIGNED(16);
static const int32_t i32[] = SIGNED(32);
static const int64_t i64[] = SIGNED(64);
static const uint8_t u8[] = UNSIGNED(8);
static const uint16_t u16[] = UNSIGNED(16);
static const uint32_t u32[] = UNSIGNED(32);
static const uint64_t u64[] = UNSIGNED(64);

int main(void)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		for (uint32_t which = 0; which < sizeof(i8) / sizeof(i8[0]); which++)
			piste(integers, all, (uint32_t)strtoul(line, NULL, 10), which, i8[which], i16[which],
			      i32[which], i64[which], u8[which], u16[which], u32[which], u64[which]);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
