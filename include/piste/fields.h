/* SPDX-License-Identifier: MIT */
/*
 * The fields of an event. A field has one of several forms, which determines how it is described, which parameters it takes, how many
 * bytes it has and how they are stored. There is a macro PISTE_<verb>_<form>(...) for each verb and form. PISTE_FIELD() determines the
 * form from what the user wrote.
 *
 *   the user writes                  form             parameters of the event
 *   (type, name)                     scalar_          type name
 *   PISTE_HEX(type, name)            piste_hex_       type name
 *   PISTE_ENUM(name, (l, v)...)      piste_enum_      int32_t name
 *   PISTE_ARRAY(type, name, count)   piste_array_     const type *name
 *   PISTE_SEQUENCE(type, name)       piste_sequence_  const type *name, size_t name_count
 *   PISTE_TEXT(name)                 piste_text_      const char *name, size_t name_bytes
 *   PISTE_NOWRITE(type, name)        piste_nowrite_   type name
 */
#ifndef PISTE_FIELDS_H
#define PISTE_FIELDS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "event.h"
#include "map.h"

#define PISTE_HEX(type, name)          (piste_hex_, type, name)
#define PISTE_ENUM(name, ...)          (piste_enum_, int32_t, name, __VA_ARGS__)
#define PISTE_ARRAY(type, name, count) (piste_array_, type, name, count)
#define PISTE_SEQUENCE(type, name)     (piste_sequence_, type, name)
#define PISTE_TEXT(name)               (piste_text_, char, name)
#define PISTE_NOWRITE(type, name)      (piste_nowrite_, type, name)

/* ---- Elements: how a C or C++ type is recorded ---- */

#define PISTE_ELEMENT_STRING     64u  /* Only in this file: a C string. */
#define PISTE_ELEMENT_POINTER    65u  /* Only in this file: an address. */
#define PISTE_ELEMENT_IMPOSSIBLE 255u /* Only in this file: a type that cannot be recorded. */

/* clang-format off */
#define PISTE_ELEMENT_INTEGER(bytes, is_signed)                                                                          \
	((bytes) == 1 ? (uint32_t)((is_signed) ? PISTE_ELEMENT_INT8 : PISTE_ELEMENT_UINT8)                               \
	 : (bytes) == 2 ? (uint32_t)((is_signed) ? PISTE_ELEMENT_INT16 : PISTE_ELEMENT_UINT16)                           \
	 : (bytes) == 4 ? (uint32_t)((is_signed) ? PISTE_ELEMENT_INT32 : PISTE_ELEMENT_UINT32)                           \
	 : (bytes) == 8 ? (uint32_t)((is_signed) ? PISTE_ELEMENT_INT64 : PISTE_ELEMENT_UINT64) : PISTE_ELEMENT_IMPOSSIBLE)
/* clang-format on */

#ifdef __cplusplus

#include <type_traits>

template <typename Type> constexpr uint32_t piste_element_of()
{
	using Plain = typename std::remove_cv<Type>::type;

	return std::is_same<Plain, char *>::value || std::is_same<Plain, const char *>::value ? PISTE_ELEMENT_STRING
	       : std::is_pointer<Plain>::value || std::is_null_pointer<Plain>::value          ? PISTE_ELEMENT_POINTER
	       : std::is_same<Plain, float>::value  ? (uint32_t)PISTE_ELEMENT_FLOAT32
	       : std::is_same<Plain, double>::value ? (uint32_t)PISTE_ELEMENT_FLOAT64
	       : std::is_integral<Plain>::value || std::is_enum<Plain>::value
	               ? PISTE_ELEMENT_INTEGER(
	                         sizeof(typename std::conditional<std::is_void<Plain>::value, char, Plain>::type),
	                         (std::is_enum<Plain>::value || std::is_signed<Plain>::value))
	               : PISTE_ELEMENT_IMPOSSIBLE;
}

static inline const char *piste_string_of(const char *text)
{
	return text;
}
/* A separate overload, because the template matches `char *` better than the function above. */
static inline const char *piste_string_of(char *text)
{
	return text;
}
template <typename Type> static inline const char *piste_string_of(const Type &)
{
	return nullptr;
}

#define PISTE_ELEMENT_OF(type)        piste_element_of<__typeof__(type)>()
#define PISTE_STRING_OF(value)        piste_string_of(value)
#define PISTE_ASSERT(condition, text) static_assert(condition, text);

#else

/* The type class that both compilers assign to pointers. */
#define PISTE_CLASS_OF(type)          __builtin_classify_type(*(__typeof__(type) *)0)
#define PISTE_CLASS_OF_POINTER        5

/* clang-format off */
#define PISTE_ELEMENT_OF(type)                                                                                           \
	_Generic(*(__typeof__(type) *)0,                                                                                 \
		_Bool: PISTE_ELEMENT_UINT8,                                                                              \
		char: CHAR_MIN < 0 ? PISTE_ELEMENT_INT8 : PISTE_ELEMENT_UINT8,                                           \
		signed char: PISTE_ELEMENT_INT8, unsigned char: PISTE_ELEMENT_UINT8,                                     \
		short: PISTE_ELEMENT_INT16, unsigned short: PISTE_ELEMENT_UINT16,                                        \
		int: PISTE_ELEMENT_INT32, unsigned int: PISTE_ELEMENT_UINT32,                                            \
		long: PISTE_ELEMENT_INTEGER(sizeof(long), 1), unsigned long: PISTE_ELEMENT_INTEGER(sizeof(long), 0),     \
		long long: PISTE_ELEMENT_INT64, unsigned long long: PISTE_ELEMENT_UINT64,                                \
		float: PISTE_ELEMENT_FLOAT32, double: PISTE_ELEMENT_FLOAT64,                                             \
		char *: PISTE_ELEMENT_STRING, const char *: PISTE_ELEMENT_STRING,                                        \
		default: PISTE_CLASS_OF(type) == PISTE_CLASS_OF_POINTER ? PISTE_ELEMENT_POINTER                          \
									: PISTE_ELEMENT_IMPOSSIBLE)
#define PISTE_STRING_OF(value) _Generic((value), char *: (value), const char *: (value), default: (const char *)NULL)
/* clang-format on */
#define PISTE_ASSERT(condition, text) _Static_assert(condition, text);

#endif

#define PISTE_IS_NUMBER(element)  ((element) <= PISTE_ELEMENT_FLOAT64)
#define PISTE_IS_INTEGER(element) ((element) <= PISTE_ELEMENT_UINT64)

/* A pointer is recorded as an unsigned integer of its size. */
#define PISTE_ELEMENT_STORED(element)                                                                                  \
	(uint8_t)((element) == PISTE_ELEMENT_STRING    ? (uint32_t)PISTE_ELEMENT_NONE                                  \
	          : (element) == PISTE_ELEMENT_POINTER ? PISTE_ELEMENT_INTEGER(sizeof(void *), 0)                      \
	                                               : (uint32_t)(element))

/* ---- Bytes: the size of a field, and how it is written ---- */

/* Larger than any sub-buffer, and the sum of 40 of them does not overflow. */
#define PISTE_BYTES_TOO_MANY ((uint64_t)1 << 40)

/* The text that is recorded for a string: the string with its zero byte, or another text if the string is NULL or cannot be read. */
struct piste_string {
	const char *text;
	uint64_t bytes;
};

static inline __attribute__((always_inline, unused)) struct piste_string piste_no_string(void)
{
	struct piste_string none = {NULL, 0};

	return none;
}

#ifdef __cplusplus
extern "C" {
#endif
/* Pure, so that nothing is left of it where the fast path of an event is not taken. */
struct piste_string piste_string_measure(const char *text) __attribute__((pure));
#ifdef __cplusplus
}
#endif

static inline __attribute__((unused)) uint64_t piste_sequence_bytes(const void *elements, size_t count,
                                                                    size_t element_bytes)
{
	if (!elements)
		return sizeof(uint32_t);
	return sizeof(uint32_t) +
	       (count > PISTE_SUBBUF_BYTES_MAX ? PISTE_BYTES_TOO_MANY : (uint64_t)count * element_bytes);
}

static inline __attribute__((always_inline, unused)) uint8_t *piste_put(uint8_t *cursor, const void *bytes,
                                                                        size_t count)
{
	__builtin_memcpy(cursor, bytes, count);
	return cursor + count;
}

/* If another thread has shortened the string since it was measured, the rest is filled with '#', so that the length of the record stays
 * correct. */
static inline __attribute__((unused)) uint8_t *piste_put_string(uint8_t *cursor, struct piste_string string)
{
	uint8_t *shortened, *end = cursor + string.bytes - 1;

	__builtin_memcpy(cursor, string.text, string.bytes - 1);
	*end = 0;
	shortened = (uint8_t *)memchr(cursor, 0, string.bytes);
	if (piste_unlikely(shortened != end))
		for (; shortened != end; shortened++)
			if (*shortened == 0)
				*shortened = '#';
	return end + 1;
}

static inline __attribute__((unused)) uint8_t *piste_put_array(uint8_t *cursor, const void *elements, uint64_t bytes)
{
	if (elements)
		__builtin_memcpy(cursor, elements, bytes);
	else
		__builtin_memset(cursor, 0, bytes);
	return cursor + bytes;
}

static inline __attribute__((unused)) uint8_t *piste_put_sequence(uint8_t *cursor, const void *elements, size_t count,
                                                                  uint64_t bytes)
{
	uint32_t length = elements ? (uint32_t)count : 0;

	cursor = piste_put(cursor, &length, sizeof(length));
	return elements ? piste_put_array(cursor, elements, bytes - sizeof(length)) : cursor;
}

/* ---- From a field as written by the user to PISTE_<verb>_<form>(event, type, name, ...) ---- */

#define PISTE_SECOND(...)             PISTE_SECOND_(__VA_ARGS__)
#define PISTE_SECOND_(a, second, ...) second
#define PISTE_PROBE(...)              ~, 1
#define PISTE_IS_TUPLE(field)         PISTE_SECOND(PISTE_PROBE field, 0, ~)
#define PISTE_UNPACK(...)             __VA_ARGS__

/* Calls a macro whose arguments must be unpacked first. There are two of them because labels are inside fields, and a macro is not
 * expanded inside itself. */
#define PISTE_CALL_FIELD(macro, ...)      macro(__VA_ARGS__)
#define PISTE_CALL_LABEL(macro, ...)      macro(__VA_ARGS__)

#define PISTE_FIELD(verb, event, field)   PISTE_JOIN(PISTE_FIELD_, PISTE_IS_TUPLE(field))(verb, event, field)
#define PISTE_FIELD_0(verb, event, field) PISTE_##verb##_malformed_(event, field)
#define PISTE_FIELD_1(verb, event, field)                                                                              \
	PISTE_CALL_FIELD(PISTE_JOIN(PISTE_FIELD_, PISTE_SHAPE field), verb, event, PISTE_UNPACK field)
#define PISTE_FIELD_one(verb, event, ...)        PISTE_##verb##_malformed_(event, (__VA_ARGS__))
#define PISTE_FIELD_two(verb, event, ...)        PISTE_##verb##_scalar_(event, __VA_ARGS__)
#define PISTE_FIELD_more(verb, event, form, ...) PISTE_##verb##_##form(event, __VA_ARGS__)

/* ---- CHECK: checks when the program is compiled ---- */

/* clang-format off */
#define PISTE_CHECK(event, field) PISTE_FIELD(CHECK, event, field)
#define PISTE_CHECK_malformed_(event, field) \
	PISTE_ASSERT(0, "piste: event " #event ": write the field '" #field "' as (type, name), for example (int32_t, id)")
#define PISTE_CHECK_NAME(event, name) \
	PISTE_ASSERT(sizeof(#name) - 1 <= PISTE_NAME_BYTES_MAX, "piste: event " #event ": a field name has more than 127 characters")
#define PISTE_CHECK_scalar_(event, type, name) \
	PISTE_CHECK_NAME(event, name) \
	PISTE_ASSERT(PISTE_ELEMENT_OF(type) != PISTE_ELEMENT_IMPOSSIBLE, \
		     "piste: event " #event ": field '" #name "' has the type '" #type "', which an event cannot hold; write an " \
		     "integer, bool, char, float, double, pointer or const char *, or PISTE_ARRAY, PISTE_SEQUENCE, PISTE_TEXT")
#define PISTE_CHECK_piste_hex_(event, type, name) \
	PISTE_CHECK_NAME(event, name) \
	PISTE_ASSERT(PISTE_IS_INTEGER(PISTE_ELEMENT_OF(type)), \
		     "piste: event " #event ": write an integer type in PISTE_HEX(type, " #name ")")
#define PISTE_CHECK_piste_enum_(event, type, name, ...) \
	PISTE_CHECK_NAME(event, name) PISTE_LABELS(PISTE_CHECK_LABEL, event, __VA_ARGS__)
#define PISTE_CHECK_LABEL(event, label) PISTE_JOIN(PISTE_CHECK_LABEL_, PISTE_IS_TUPLE(label))(event, label)
#define PISTE_CHECK_LABEL_0(event, label) \
	PISTE_ASSERT(0, "piste: event " #event ": write each label of PISTE_ENUM as (label, value), for example (OPEN, 1)")
#define PISTE_CHECK_LABEL_1(event, label) PISTE_CALL_LABEL(PISTE_CHECK_LABEL_VALUE, event, PISTE_UNPACK label)
#define PISTE_CHECK_LABEL_VALUE(event, label, value) \
	PISTE_ASSERT(sizeof(#label) - 1 <= PISTE_NAME_BYTES_MAX, "piste: event " #event ": a label has more than 127 characters") \
	PISTE_ASSERT((value) >= INT32_MIN && (value) <= INT32_MAX, \
		     "piste: event " #event ": the value of the label '" #label "' must fit in 32 bits")
#define PISTE_CHECK_piste_array_(event, type, name, elements) \
	PISTE_CHECK_NAME(event, name) \
	PISTE_ASSERT(PISTE_IS_NUMBER(PISTE_ELEMENT_OF(type)), \
		     "piste: event " #event ": the elements of PISTE_ARRAY '" #name "' must be integers, float or double") \
	PISTE_ASSERT((elements) >= 1 && (elements) <= PISTE_ARRAY_COUNT_MAX, \
		     "piste: event " #event ": PISTE_ARRAY '" #name "' must have 1 to 4096 elements; write PISTE_SEQUENCE for more")
#define PISTE_CHECK_piste_sequence_(event, type, name) \
	PISTE_CHECK_NAME(event, name) \
	PISTE_ASSERT(PISTE_IS_NUMBER(PISTE_ELEMENT_OF(type)), \
		     "piste: event " #event ": the elements of PISTE_SEQUENCE '" #name "' must be integers, float or double")
#define PISTE_CHECK_piste_text_(event, type, name) PISTE_CHECK_NAME(event, name)
#define PISTE_CHECK_piste_nowrite_(event, type, name) PISTE_CHECK_scalar_(event, type, name)

/* ---- NAME_LABELS: the labels of enumerations, in separate objects that precede those of the fields ---- */

#define PISTE_NAME_LABELS(event, field) PISTE_FIELD(NAME_LABELS, event, field)
#define PISTE_NAME_LABELS_malformed_(event, field)
#define PISTE_NAME_LABELS_scalar_(event, type, name)
#define PISTE_NAME_LABELS_piste_hex_(event, type, name)
#define PISTE_NAME_LABELS_piste_enum_(event, type, name, ...) \
	static const struct piste_label piste_labels__##event##__##name[] __attribute__((unused)) = { \
		PISTE_LABELS(PISTE_NAME_LABEL, ~, __VA_ARGS__) {NULL, 0}};
#define PISTE_NAME_LABEL(unused, label) PISTE_CALL_LABEL(PISTE_NAME_LABEL_OF, PISTE_UNPACK label)
#define PISTE_NAME_LABEL_OF(label, value) {#label, value},
#define PISTE_NAME_LABELS_piste_array_(event, type, name, elements)
#define PISTE_NAME_LABELS_piste_sequence_(event, type, name)
#define PISTE_NAME_LABELS_piste_text_(event, type, name)
#define PISTE_NAME_LABELS_piste_nowrite_(event, type, name)

/* ---- DESCRIBE: struct piste_field ---- */

#define PISTE_DESCRIBE(event, field) PISTE_FIELD(DESCRIBE, event, field)
#define PISTE_DESCRIBE_malformed_(event, field)
#define PISTE_DESCRIBE_SCALAR(type, name, flags) \
	{#name, NULL, 0, (uint8_t)(PISTE_ELEMENT_OF(type) == PISTE_ELEMENT_STRING ? PISTE_FIELD_STRING : PISTE_FIELD_SCALAR), \
	 PISTE_ELEMENT_STORED(PISTE_ELEMENT_OF(type)), \
	 PISTE_ELEMENT_OF(type) == PISTE_ELEMENT_POINTER ? PISTE_BASE_HEX : PISTE_BASE_DECIMAL, flags},
#define PISTE_DESCRIBE_scalar_(event, type, name) PISTE_DESCRIBE_SCALAR(type, name, 0)
#define PISTE_DESCRIBE_piste_nowrite_(event, type, name) PISTE_DESCRIBE_SCALAR(type, name, PISTE_FIELD_NOWRITE)
#define PISTE_DESCRIBE_piste_hex_(event, type, name) \
	{#name, NULL, 0, PISTE_FIELD_SCALAR, PISTE_ELEMENT_STORED(PISTE_ELEMENT_OF(type)), PISTE_BASE_HEX, 0},
#define PISTE_DESCRIBE_piste_enum_(event, type, name, ...) \
	{#name, piste_labels__##event##__##name, PISTE_COUNT(__VA_ARGS__), PISTE_FIELD_ENUM, PISTE_ELEMENT_INT32, PISTE_BASE_DECIMAL, 0},
#define PISTE_DESCRIBE_piste_array_(event, type, name, elements) \
	{#name, NULL, (elements), PISTE_FIELD_ARRAY, PISTE_ELEMENT_STORED(PISTE_ELEMENT_OF(type)), PISTE_BASE_DECIMAL, 0},
#define PISTE_DESCRIBE_piste_sequence_(event, type, name) \
	{#name, NULL, 0, PISTE_FIELD_SEQUENCE, PISTE_ELEMENT_STORED(PISTE_ELEMENT_OF(type)), PISTE_BASE_DECIMAL, 0},
#define PISTE_DESCRIBE_piste_text_(event, type, name) \
	{#name, NULL, 0, PISTE_FIELD_TEXT, PISTE_ELEMENT_NONE, PISTE_BASE_DECIMAL, 0},

/* ---- PARAMETER, ARGUMENT: the parameters of the functions that record the event, each followed by a comma ---- */

#define PISTE_PARAMETER(event, field) PISTE_FIELD(PARAMETER, event, field)
#define PISTE_PARAMETER_malformed_(event, field)
#define PISTE_PARAMETER_scalar_(event, type, name) __typeof__(type) name,
#define PISTE_PARAMETER_piste_hex_(event, type, name) __typeof__(type) name,
#define PISTE_PARAMETER_piste_enum_(event, type, name, ...) int32_t name,
#define PISTE_PARAMETER_piste_array_(event, type, name, elements) const __typeof__(type) *name,
#define PISTE_PARAMETER_piste_sequence_(event, type, name) const __typeof__(type) *name, size_t name##_count,
#define PISTE_PARAMETER_piste_text_(event, type, name) const char *name, size_t name##_bytes,
#define PISTE_PARAMETER_piste_nowrite_(event, type, name) __typeof__(type) name,

#define PISTE_ARGUMENT(event, field) PISTE_FIELD(ARGUMENT, event, field)
#define PISTE_ARGUMENT_malformed_(event, field)
#define PISTE_ARGUMENT_scalar_(event, type, name) name,
#define PISTE_ARGUMENT_piste_hex_(event, type, name) name,
#define PISTE_ARGUMENT_piste_enum_(event, type, name, ...) name,
#define PISTE_ARGUMENT_piste_array_(event, type, name, elements) name,
#define PISTE_ARGUMENT_piste_sequence_(event, type, name) name, name##_count,
#define PISTE_ARGUMENT_piste_text_(event, type, name) name, name##_bytes,
#define PISTE_ARGUMENT_piste_nowrite_(event, type, name) name,

/* ---- MEASURE: the size of the field in bytes, a constant if possible ---- */

#define PISTE_MEASURE(event, field) PISTE_FIELD(MEASURE, event, field)
#define PISTE_MEASURE_malformed_(event, field)
#define PISTE_MEASURE_scalar_(event, type, name) \
	const struct piste_string piste__string_##name __attribute__((unused)) = \
		PISTE_ELEMENT_OF(type) == PISTE_ELEMENT_STRING ? piste_string_measure(PISTE_STRING_OF(name)) : piste_no_string(); \
	const uint64_t piste_measured_##name = \
		PISTE_ELEMENT_OF(type) == PISTE_ELEMENT_STRING ? piste__string_##name.bytes : sizeof(name);
#define PISTE_MEASURE_piste_hex_(event, type, name) const uint64_t piste_measured_##name = sizeof(name);
#define PISTE_MEASURE_piste_enum_(event, type, name, ...) const uint64_t piste_measured_##name = sizeof(name);
#define PISTE_MEASURE_piste_array_(event, type, name, elements) const uint64_t piste_measured_##name = (elements) * sizeof(*name);
#define PISTE_MEASURE_piste_sequence_(event, type, name) \
	const uint64_t piste_measured_##name = piste_sequence_bytes(name, name##_count, sizeof(*name));
#define PISTE_MEASURE_piste_text_(event, type, name) \
	const uint64_t piste_measured_##name = piste_sequence_bytes(name, name##_bytes, 1);
#define PISTE_MEASURE_piste_nowrite_(event, type, name) \
	PISTE_MEASURE_scalar_(event, type, name) piste_nowrite_bytes += piste_measured_##name;

#define PISTE_ADD(event, field) PISTE_FIELD(ADD, event, field)
#define PISTE_ADD_malformed_(event, field)
#define PISTE_ADD_scalar_(event, type, name) +piste_measured_##name
#define PISTE_ADD_piste_hex_(event, type, name) +piste_measured_##name
#define PISTE_ADD_piste_enum_(event, type, name, ...) +piste_measured_##name
#define PISTE_ADD_piste_array_(event, type, name, elements) +piste_measured_##name
#define PISTE_ADD_piste_sequence_(event, type, name) +piste_measured_##name
#define PISTE_ADD_piste_text_(event, type, name) +piste_measured_##name
#define PISTE_ADD_piste_nowrite_(event, type, name)

/* ---- PUT: writes the field at piste_cursor ---- */

#define PISTE_PUT(event, field) PISTE_FIELD(PUT, event, field)
#define PISTE_PUT_malformed_(event, field)
#define PISTE_PUT_scalar_(event, type, name) \
	piste_cursor = PISTE_ELEMENT_OF(type) == PISTE_ELEMENT_STRING \
			       ? piste_put_string(piste_cursor, piste__string_##name) \
			       : piste_put(piste_cursor, &name, sizeof(name));
#define PISTE_PUT_piste_hex_(event, type, name) piste_cursor = piste_put(piste_cursor, &name, sizeof(name));
#define PISTE_PUT_piste_enum_(event, type, name, ...) piste_cursor = piste_put(piste_cursor, &name, sizeof(name));
#define PISTE_PUT_piste_array_(event, type, name, elements) \
	piste_cursor = piste_put_array(piste_cursor, name, piste_measured_##name);
#define PISTE_PUT_piste_sequence_(event, type, name) \
	piste_cursor = piste_put_sequence(piste_cursor, name, name##_count, piste_measured_##name);
#define PISTE_PUT_piste_text_(event, type, name) \
	piste_cursor = piste_put_sequence(piste_cursor, name, name##_bytes, piste_measured_##name);
#define PISTE_PUT_piste_nowrite_(event, type, name) \
	if (piste_for_filters) { PISTE_PUT_scalar_(event, type, name) }
/* clang-format on */

#endif
