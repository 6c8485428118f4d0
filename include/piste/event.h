/* SPDX-License-Identifier: MIT */
/*
 * What a program stores for each event: a read-only description, and a state through which the runtime enables the event. Both are
 * static objects of the file that uses the event. The states of a program or library are in one section, which a constructor passes
 * to the runtime. Next: fields.h (fields), tracepoint.h (the macros that define these objects).
 */
#ifndef PISTE_EVENT_H
#define PISTE_EVENT_H

#include "abi/event.h"
#include "abi/protocol.h"
#include "filter.h"
#include "ring.h"

struct piste_label {
	const char *name;
	int64_t value;
};

struct piste_field {
	const char *name;
	const struct piste_label *labels; /* Only of PISTE_FIELD_ENUM. */
	uint32_t count;                   /* Number of labels, or of elements of an array. */
	uint8_t kind;                     /* enum piste_field_kind */
	uint8_t element;                  /* enum piste_element */
	uint8_t base;
	uint8_t flags; /* PISTE_FIELD_NOWRITE, or 0. */
};

struct piste_event_info {
	const char *provider;
	const char *name;
	const struct piste_field *fields;
	uint16_t field_count;
	uint8_t level; /* enum piste_level */
	uint8_t reserved[5];
};

/* Up to PISTE_SLOTS_COUNT channels that record an event: the word of slot i says which channel of the runtime that is, and the event's
 * id in it. The runtime appends more of these where a program has more channels. */
#define PISTE_SLOTS_COUNT 6
struct piste_slots {
	uint32_t used; /* Number of slots that were ever set. */
	uint32_t reserved;
	struct piste_slots *next;
	volatile uint64_t word[PISTE_SLOTS_COUNT];
};

#define PISTE_EVENT_MAGIC 0x56455350u /* "PSEV" */
#define PISTE_EVENT_BYTES 128

/* A disabled event costs the load of `enabled` and a branch. Otherwise that is the address of the event's views (ring.h) in the one
 * channel that records it on the fast path, or of views that stay empty. The members are volatile because the runtime writes them
 * through the section, which the compiler does not see: it would treat a static object that is never written to as a constant. What
 * follows `info` is the runtime's. */
struct piste_event {
	volatile uint64_t enabled;
	uint32_t magic;
	uint32_t reserved_0;
	const struct piste_event_info *info;
	volatile uint64_t only; /* The word of the only slot that is set, if it is the only one and has no filter. */
	struct piste_slot_filter *volatile filters;      /* One for each slot that ever had one. */
	const struct piste_filter *volatile filter;      /* Of the only slot that is set. */
	const struct piste_filter_range *volatile range; /* What that filter asks first; NULL: anything else. */
	uint64_t reserved_1;
	struct piste_slots slots;
} __attribute__((aligned(PISTE_EVENT_BYTES)));
PISTE_ABI_SIZE(struct piste_event, PISTE_EVENT_BYTES);

/* One for each program and library. */
struct piste_module {
	struct piste_thread_offsets offsets; /* Set by the runtime. */
	uint32_t registered;
	uint32_t id; /* Used by the runtime. */
	struct piste_event *events;
	struct piste_event *events_end;
	struct piste_module *next; /* Used by the runtime. */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Called by the constructors and destructors that tracepoint.h defines. Registration returns as soon as a running pisted has enabled
 * the events of the module, at the latest after $PISTE_REGISTER_TIMEOUT milliseconds (default 3000). */
void piste_module_register(struct piste_module *module, uint32_t abi_major);
void piste_module_unregister(struct piste_module *module);

/* Where the fields of one record go; `cursor` is NULL if nothing was reserved. */
struct piste_place {
	uint8_t *cursor;
	uint64_t marks;
};

/* `marks` is the address of the record's marks, and above it their number and the first one. */
#define PISTE_PLACE_UNITS_SHIFT 48
#define PISTE_PLACE_UNITS_MAX   16u
#define PISTE_PLACE_FIRST_SHIFT 56

/* Reserves a record in the only channel that records the event, if there is one and nothing is unusual. */
struct piste_place piste_record_only(struct piste_event *event, uint64_t bytes);

/* Commits it: as piste_mark(). */
static inline __attribute__((always_inline)) void piste_place_commit(struct piste_place place)
{
	uint8_t *marks = (uint8_t *)(uintptr_t)(place.marks & ((UINT64_C(1) << PISTE_PLACE_UNITS_SHIFT) - 1));
	uint8_t units = (uint8_t)(place.marks >> PISTE_PLACE_UNITS_SHIFT);
	uint8_t first = (uint8_t)(place.marks >> PISTE_PLACE_FIRST_SHIFT);

	for (uint8_t unit = 1; unit < units; unit++)
		piste_store_relaxed(marks + unit, (uint8_t)(first & PISTE_MARK_TAG_MASK));
	piste_store_release(marks, first);
}

/* Of the fields that filters see, where the program has room for them. */
#define PISTE_SCRATCH_BYTES_MAX 256u

/* An event on its way to the channels that record it. The first members are set by piste_record_begin(), the rest is the runtime's. */
struct piste_record {
	struct piste_event *event;
	uint64_t bytes;          /* Of the fields. */
	uint64_t filtered_bytes; /* Of the fields as filters see them: with those that are not recorded ... */
	uint8_t *
	        filtered; /* ... and where they are. NULL: the event has no filter, or they do not fit into `scratch`. */
	struct piste_slots *slots;
	const void *ip; /* Behind the call that records the event. */
	uint64_t others[12];
	uint64_t scratch[PISTE_SCRATCH_BYTES_MAX / 8];
};

/* Commits what was written since the last call, and reserves space in the next channel that records the event. Returns where to write
 * the fields; NULL at the end. If the event has filters, the first place may be none in a channel: what is written there is what filters
 * see. Safe in signal handlers and in any thread. */
uint8_t *piste_record_next(struct piste_record *record);

/* Begins with the first place for the fields, which are `bytes` and, for filters only, `nowrite_bytes` long. If its `marks` are not 0,
 * it is in the only channel that records the event, and piste_place_commit() ends the record; otherwise piste_record_next() follows. Not
 * all of the record is set: what is stored delays the next locked instruction. */
static inline __attribute__((always_inline)) struct piste_place piste_record_begin(struct piste_record *record,
                                                                                   struct piste_event *event,
                                                                                   const void *ip, uint64_t bytes,
                                                                                   uint64_t nowrite_bytes)
{
	struct piste_place place = {NULL, 0};

	if (piste_likely(piste_load_relaxed(&event->only) != 0)) {
		place = piste_record_only(event, bytes);
		if (piste_likely(place.cursor))
			return place;
	}
	record->event = event;
	record->bytes = bytes;
	record->filtered_bytes = bytes + nowrite_bytes;
	record->filtered = NULL;
	record->slots = NULL;
	record->ip = ip;
	if (piste_unlikely(event->filters != NULL) && bytes + nowrite_bytes <= PISTE_SCRATCH_BYTES_MAX) {
		record->filtered = (uint8_t *)record->scratch;
		place.cursor = record->filtered;
	} else {
		place.cursor = piste_record_next(record);
	}
	return place;
}

/* Whether an event ends here whose fields lie where filters see them: its only filter rejects it at once. */
static inline __attribute__((always_inline)) bool piste_record_is_rejected(const struct piste_record *record)
{
	/* ORDER event.filter (acquire): pairs with runtime/modules.c. */
	const struct piste_filter_range *range = piste_load_acquire(&record->event->range);

	return range && record->filtered == (const uint8_t *)record->scratch &&
	       !piste_filter_range_has(range, record->filtered, record->filtered_bytes);
}

/* Records a formatted string as the only field of `event`. `format` is that of printf. As safe in signal handlers as the vsnprintf of
 * the C library. */
void piste_print(struct piste_event *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
