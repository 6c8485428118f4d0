/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Events of LTTng-UST with every kind of field. */

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kinds

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "fields.h"

#if !defined(KINDS_FIELDS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define KINDS_FIELDS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(kinds, weekday,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("monday", 1)
		lttng_ust_field_enum_auto("tuesday")
		lttng_ust_field_enum_range("the rest of it", 3, 5)
		lttng_ust_field_enum_range("weekend", 5, 7)
		lttng_ust_field_enum_value("before", -1)
		lttng_ust_field_enum_value("\"quoted\"", 200)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(kinds, integers,
	LTTNG_UST_TP_ARGS(int64_t, value),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, i8, value)
		lttng_ust_field_integer(uint8_t, u8, value)
		lttng_ust_field_integer(int16_t, i16, value)
		lttng_ust_field_integer(uint16_t, u16, value)
		lttng_ust_field_integer(int32_t, i32, value)
		lttng_ust_field_integer(uint32_t, u32, value)
		lttng_ust_field_integer(int64_t, i64, value)
		lttng_ust_field_integer(uint64_t, u64, value)
		lttng_ust_field_integer_hex(int8_t, x8, value)
		lttng_ust_field_integer_hex(int32_t, x32, value)
		lttng_ust_field_integer_hex(uint64_t, x64, value)
		lttng_ust_field_integer_network(int16_t, n16, value)
		lttng_ust_field_integer_network(uint32_t, n32, value)
		lttng_ust_field_integer_network(int64_t, n64, value)
		lttng_ust_field_integer_network_hex(uint16_t, nx16, value)
		lttng_ust_field_integer_network_hex(int32_t, nx32, value)
		lttng_ust_field_integer_nowrite(int, unwritten, value)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(kinds, floats,
	LTTNG_UST_TP_ARGS(double, value),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_float(float, f32, value)
		lttng_ust_field_integer(uint8_t, between, 1)
		lttng_ust_field_float(double, f64, value)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(kinds, enums,
	LTTNG_UST_TP_ARGS(int, value),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_enum(kinds, weekday, int, as_int, value)
		lttng_ust_field_enum(kinds, weekday, int8_t, as_byte, value)
		lttng_ust_field_enum(kinds, weekday, int64_t, as_long, value)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(kinds, texts,
	LTTNG_UST_TP_ARGS(const char *, text, const char *, array, int, length),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(string, text)
		lttng_ust_field_array_text(char, array, array, 8)
		lttng_ust_field_sequence_text(char, sequence, array, uint8_t, length)
		lttng_ust_field_sequence_text(char, long_length, array, uint64_t, length)
		lttng_ust_field_string(behind, text)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(kinds, arrays,
	LTTNG_UST_TP_ARGS(const int32_t *, values, int, length),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_array(int32_t, array, values, 3)
		lttng_ust_field_array_hex(uint8_t, bytes, values, 5)
		lttng_ust_field_array_network(int32_t, network, values, 2)
		lttng_ust_field_array_network_hex(uint16_t, network_hex, values, 2)
		lttng_ust_field_sequence(int32_t, sequence, values, uint16_t, length)
		lttng_ust_field_sequence_hex(int64_t, hex, values, uint32_t, length / 2)
		lttng_ust_field_sequence_network(int32_t, sequence_network, values, uint8_t, length)
		lttng_ust_field_sequence_network_hex(uint16_t, sequence_network_hex, values, uint64_t, length)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(kinds, nothing, LTTNG_UST_TP_ARGS(void), LTTNG_UST_TP_FIELDS())

#define MANY(number)                                                                                                   \
	LTTNG_UST_TRACEPOINT_EVENT(kinds, many##number, LTTNG_UST_TP_ARGS(int, value),                                 \
		LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, value, value)))
MANY(0) MANY(1) MANY(2) MANY(3) MANY(4) MANY(5) MANY(6) MANY(7) MANY(8) MANY(9)
MANY(10) MANY(11) MANY(12) MANY(13) MANY(14) MANY(15) MANY(16) MANY(17) MANY(18) MANY(19)
MANY(20) MANY(21) MANY(22) MANY(23) MANY(24) MANY(25) MANY(26) MANY(27) MANY(28) MANY(29)

#endif

#include <lttng/tracepoint-event.h>
