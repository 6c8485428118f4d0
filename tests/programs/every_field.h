/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An event for each kind of field, recorded with values at the limits. C and C++ share the text: every_field.c, every_field.cc. What
 * babeltrace2 must show is in ../suite/tests/fields.rs.
 */
#ifndef EVERY_FIELD_H
#define EVERY_FIELD_H

#include <float.h>
#include <limits.h>
#include <piste/tracepoint.h>
#include <stdint.h>
#include <string.h>

enum colour { COLOUR_RED = 1, COLOUR_BLUE = 4 };
typedef uint16_t port_number;

PISTE_EVENT(field, nothing)
PISTE_EVENT(field, fixed_signed, (int8_t, i8), (int16_t, i16), (int32_t, i32), (int64_t, i64))
PISTE_EVENT(field, fixed_unsigned, (uint8_t, u8), (uint16_t, u16), (uint32_t, u32), (uint64_t, u64))
PISTE_EVENT(field, plain_signed, (signed char, c), (short, s), (int, i), (long, l), (long long, ll))
PISTE_EVENT(field, plain_unsigned, (unsigned char, c), (unsigned short, s), (unsigned int, i), (unsigned long, l),
            (unsigned long long, ll))
PISTE_EVENT(field, other_integers, (bool, yes), (bool, no), (char, letter), (size_t, size), (port_number, port),
            (enum colour, colour))
PISTE_EVENT(field, floats, (float, f), (double, d))
PISTE_EVENT(field, pointers, (void *, p), (const int *, i), (struct unknown *, unknown))
PISTE_EVENT(field, strings, (const char *, s), (char *, t))
PISTE_EVENT(field, hexadecimal, PISTE_HEX(uint8_t, u8), PISTE_HEX(int16_t, i16), PISTE_HEX(uint64_t, u64))
PISTE_EVENT(field, arrays, PISTE_ARRAY(uint8_t, bytes, 4), PISTE_ARRAY(int64_t, wide, 2), PISTE_ARRAY(double, real, 2),
            PISTE_ARRAY(char, letters, 2))
PISTE_EVENT(field, sequences, PISTE_SEQUENCE(uint32_t, numbers), PISTE_SEQUENCE(float, reals))
PISTE_EVENT(field, texts, PISTE_TEXT(text))
/* Of their own: where a text is empty, babeltrace2 2.0 shows that of an earlier event. */
PISTE_EVENT(field, empty_texts, PISTE_TEXT(text))
PISTE_EVENT(field, labels, PISTE_ENUM(state, (OPEN, 0), (CLOSED, 7), (LOWEST, INT32_MIN), (HIGHEST, INT32_MAX)))
PISTE_EVENT(field, mixed, (const char *, before), (int32_t, middle), PISTE_TEXT(text), (const char *, after),
            PISTE_SEQUENCE(uint16_t, numbers), (uint8_t, last))
PISTE_EVENT(field, thirty_two, (int, a1), (int, a2), (int, a3), (int, a4), (int, a5), (int, a6), (int, a7), (int, a8),
            (int, a9), (int, a10), (int, a11), (int, a12), (int, a13), (int, a14), (int, a15), (int, a16), (int, a17),
            (int, a18), (int, a19), (int, a20), (int, a21), (int, a22), (int, a23), (int, a24), (int, a25), (int, a26),
            (int, a27), (int, a28), (int, a29), (int, a30), (int, a31), (int, a32))
PISTE_EVENT(field, forty, (const char *, a1), (int8_t, a2), (int, a3), (int8_t, a4), (int, a5), (int8_t, a6), (int, a7),
            (int8_t, a8), (int, a9), (int8_t, a10), (int, a11), (int8_t, a12), (int, a13), (int8_t, a14), (int, a15),
            (int8_t, a16), (int, a17), (int8_t, a18), (int, a19), (int8_t, a20), (int, a21), (int8_t, a22), (int, a23),
            (int8_t, a24), (int, a25), (int8_t, a26), (int, a27), (int8_t, a28), (int, a29), (int8_t, a30), (int, a31),
            (int8_t, a32), (int, a33), (int8_t, a34), (int, a35), (int8_t, a36), (int, a37), (int8_t, a38), (int, a39),
            (const char *, a40))

PISTE_EVENT_LEVEL(level, emerg, EMERG)
PISTE_EVENT_LEVEL(level, alert, ALERT)
PISTE_EVENT_LEVEL(level, crit, CRIT)
PISTE_EVENT_LEVEL(level, err, ERR)
PISTE_EVENT_LEVEL(level, warning, WARNING)
PISTE_EVENT_LEVEL(level, notice, NOTICE)
PISTE_EVENT_LEVEL(level, info, INFO)
PISTE_EVENT_LEVEL(level, debug_system, DEBUG_SYSTEM)
PISTE_EVENT_LEVEL(level, debug_program, DEBUG_PROGRAM)
PISTE_EVENT_LEVEL(level, debug_process, DEBUG_PROCESS, (int32_t, id))
PISTE_EVENT_LEVEL(level, debug_module, DEBUG_MODULE, (int32_t, id), (const char *, name))
PISTE_EVENT_LEVEL(level, debug_unit, DEBUG_UNIT)
PISTE_EVENT_LEVEL(level, debug_function, DEBUG_FUNCTION)
PISTE_EVENT_LEVEL(level, debug_line, DEBUG_LINE)
PISTE_EVENT_LEVEL(level, debug, DEBUG)

static inline void record_integers(void)
{
	piste(field, nothing);
	piste(field, fixed_signed, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN);
	piste(field, fixed_signed, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX);
	piste(field, fixed_signed, -1, -1, -1, -1);
	piste(field, fixed_unsigned, 0, 0, 0, 0);
	piste(field, fixed_unsigned, UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT64_MAX);
	piste(field, plain_signed, SCHAR_MIN, SHRT_MIN, INT_MIN, LONG_MIN, LLONG_MIN);
	piste(field, plain_signed, SCHAR_MAX, SHRT_MAX, INT_MAX, LONG_MAX, LLONG_MAX);
	piste(field, plain_unsigned, UCHAR_MAX, USHRT_MAX, UINT_MAX, ULONG_MAX, ULLONG_MAX);
	piste(field, other_integers, true, false, 'A', SIZE_MAX, 65535, COLOUR_BLUE);
	piste(field, hexadecimal, 171, -2, UINT64_MAX);
	piste(field, labels, 0);
	piste(field, labels, 7);
	piste(field, labels, INT32_MIN);
	piste(field, labels, INT32_MAX);
	piste(field, labels, -3);
}

static inline void record_floats_and_pointers(void)
{
	piste(field, floats, 1.5f, -0.1);
	piste(field, floats, FLT_MAX, DBL_MAX);
	piste(field, floats, 0, 5e-324);
	piste(field, pointers, (void *)(uintptr_t)0x7fff12345678, (const int *)(uintptr_t)4096, NULL);
}

static inline void record_strings(void)
{
	char changing[] = "text that may change";

	piste(field, strings, "plain", changing);
	piste(field, strings, "", NULL);
	piste(field, strings, "Bj\xc3\xb6rk \xe2\x82\xac \xf0\x9f\x8e\xb5", changing + 5);
	piste(field, strings, "quote \" backslash \\ newline \n tab \t", changing);
	piste(field, texts, "plain", 5);
	piste(field, texts, "cut here", 3);
	piste(field, texts, "two\nlines", 9);
	piste(field, texts, "zero\0inside", 11);
	piste(field, empty_texts, "", 0);
	piste(field, empty_texts, NULL, 100);
}

static inline void record_arrays(void)
{
	const uint8_t bytes[4] = {0, 1, 254, 255};
	const int64_t wide[2] = {INT64_MIN, INT64_MAX};
	const double real[2] = {0.5, -2.25};
	const uint32_t numbers[3] = {1, 2, UINT32_MAX};
	const float reals[1] = {3.5f};
	const uint16_t few[2] = {10, 20};

	piste(field, arrays, bytes, wide, real, "hi");
	piste(field, sequences, numbers, 3, reals, 1);
	piste(field, sequences, numbers, 0, NULL, 5);
	piste(field, mixed, "before", -7, "te\0xt", 5, "after", few, 2, 255);
}

static inline void record_many(void)
{
	piste(field, thirty_two, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
	      25, 26, 27, 28, 29, 30, 31, 32);
	piste(field, forty, "first", 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
	      25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, "last");
}

static inline void record_levels(void)
{
	piste(level, emerg);
	piste(level, alert);
	piste(level, crit);
	piste(level, err);
	piste(level, warning);
	piste(level, notice);
	piste(level, info);
	piste(level, debug_system);
	piste(level, debug_program);
	piste(level, debug_process, 1);
	piste(level, debug_module, 2, "two");
	piste(level, debug_unit);
	piste(level, debug_function);
	piste(level, debug_line);
	piste(level, debug);
}

static inline void record_formatted(void)
{
	char long_text[2001];

	memset(long_text, 'x', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = 0;
	piste_printf("plain");
	piste_printf("%d %s %.2f", -1, "two", 3.0);
	piste_printf("%.511s|", long_text);
	piste_printf("%s|", long_text);
	piste_log(EMERG, "level %d", 0);
	piste_log(INFO, "level %d", 6);
	piste_log(DEBUG, "level %d", 14);
}

static inline void record_every_field(void)
{
	record_integers();
	record_floats_and_pointers();
	record_strings();
	record_arrays();
	record_many();
	record_levels();
	record_formatted();
}

#endif
