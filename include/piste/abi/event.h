/* SPDX-License-Identifier: MIT */
/*
 * How a program describes its events to pisted: struct piste_event_description, the provider and the name, then its fields,
 * each a struct piste_field_description, the name, and for an enumeration its labels. Every struct's `total_bytes` covers what
 * follows it and is a multiple of 8 (zero bytes pad); texts are UTF-8 without a terminator.
 *
 * A field's bytes in a record, nothing aligned:
 *   SCALAR     the element
 *   ENUM       the element, an int32
 *   ARRAY      `count` elements
 *   SEQUENCE   uint32 number of elements, then the elements
 *   TEXT       uint32 number of bytes, then the bytes (UTF-8, may hold anything)
 *   STRING     the bytes, then a zero byte
 */
#ifndef PISTE_ABI_EVENT_H
#define PISTE_ABI_EVENT_H

#include "base.h"

#define PISTE_NAME_BYTES_MAX        127u /* Of a provider, an event, a field or a label. */
#define PISTE_FIELD_COUNT_MAX       40u  /* Fields of an event. */
#define PISTE_LABEL_COUNT_MAX       512u /* Labels of an enumeration. */
#define PISTE_ARRAY_COUNT_MAX       4096u
#define PISTE_DESCRIPTION_BYTES_MAX 49152u

/* Values as in syslog, then finer ones; the names and values of LTTng-UST's log levels. */
enum piste_level {
	PISTE_LEVEL_EMERG = 0,
	PISTE_LEVEL_ALERT = 1,
	PISTE_LEVEL_CRIT = 2,
	PISTE_LEVEL_ERR = 3,
	PISTE_LEVEL_WARNING = 4,
	PISTE_LEVEL_NOTICE = 5,
	PISTE_LEVEL_INFO = 6,
	PISTE_LEVEL_DEBUG_SYSTEM = 7,
	PISTE_LEVEL_DEBUG_PROGRAM = 8,
	PISTE_LEVEL_DEBUG_PROCESS = 9,
	PISTE_LEVEL_DEBUG_MODULE = 10,
	PISTE_LEVEL_DEBUG_UNIT = 11,
	PISTE_LEVEL_DEBUG_FUNCTION = 12,
	PISTE_LEVEL_DEBUG_LINE = 13, /* The default. */
	PISTE_LEVEL_DEBUG = 14,
};

enum piste_field_kind {
	PISTE_FIELD_SCALAR = 1,
	PISTE_FIELD_ENUM = 2,
	PISTE_FIELD_ARRAY = 3,
	PISTE_FIELD_SEQUENCE = 4,
	PISTE_FIELD_TEXT = 5,
	PISTE_FIELD_STRING = 6,
};

enum piste_element {
	PISTE_ELEMENT_NONE = 0, /* Of TEXT and STRING. */
	PISTE_ELEMENT_INT8 = 1,
	PISTE_ELEMENT_INT16 = 2,
	PISTE_ELEMENT_INT32 = 3,
	PISTE_ELEMENT_INT64 = 4,
	PISTE_ELEMENT_UINT8 = 5,
	PISTE_ELEMENT_UINT16 = 6,
	PISTE_ELEMENT_UINT32 = 7,
	PISTE_ELEMENT_UINT64 = 8,
	PISTE_ELEMENT_FLOAT32 = 9,
	PISTE_ELEMENT_FLOAT64 = 10,
};

struct piste_event_description {
	uint32_t total_bytes;
	uint32_t event_index; /* Number of the event in its module. */
	uint8_t level;
	uint8_t reserved;
	uint16_t field_count;
	uint16_t provider_bytes;
	uint16_t name_bytes;
};
PISTE_ABI_SIZE(struct piste_event_description, 16);

#define PISTE_BASE_DECIMAL  10u
#define PISTE_BASE_HEX      16u

#define PISTE_FIELD_NOWRITE 1u /* A flag: only filters see the field; records do not have it. */

struct piste_field_description {
	uint32_t total_bytes;
	uint8_t kind;
	uint8_t element;
	uint8_t base;  /* How integers are shown. */
	uint8_t flags; /* PISTE_FIELD_NOWRITE, or 0. */
	uint16_t name_bytes;
	uint16_t label_count; /* Of ENUM. */
	uint32_t count;       /* Of ARRAY. */
};
PISTE_ABI_SIZE(struct piste_field_description, 16);

struct piste_label_description {
	uint32_t total_bytes;
	uint16_t label_bytes;
	uint16_t reserved;
	int64_t value;
};
PISTE_ABI_SIZE(struct piste_label_description, 16);

#endif
