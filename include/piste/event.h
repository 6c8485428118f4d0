/* SPDX-License-Identifier: MIT */
/*
 * What a program stores for each event: a read-only description, and a state through which the runtime enables the event. Both are
 * static objects in each source file that uses the event. The states of a program or library are in one section, which a constructor
 * passes to the runtime. Next: fields.h (fields), tracepoint.h (the macros that define these objects).
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
	const struct piste_label *labels; /* Only for PISTE_FIELD_ENUM. */
	uint32_t count;                   /* Number of labels, or of array elements. */
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

/* Up to PISTE_SLOTS_COUNT channels that record an event. The word of slot i identifies the runtime's channel and contains the event's ID
 * in it. If a program has more channels, the runtime appends more of these structs. */
#define PISTE_SLOTS_COUNT 6
struct piste_slots {
	uint32_t used; /* Number of slots that have ever been set. */
	uint32_t reserved;
	struct piste_slots *next;
	volatile uint64_t word[PISTE_SLOTS_COUNT];
};

#define PISTE_EVENT_MAGIC 0x56455350u /* "PSEV" */
#define PISTE_EVENT_BYTES 128

/* A disabled event costs a load of `enabled` and a branch. If the event is enabled, `enabled` is the address of its views (ring.h) in the
 * only channel that records it on the fast path, or of views that remain empty. The members are volatile because the runtime writes them
 * through the section. The compiler cannot see these writes, and would treat a static object that is never written as a constant. The
 * members after `info` belong to the runtime. */
struct piste_event {
	volatile uint64_t enabled;
	uint32_t magic;
	uint32_t reserved_0;
	const struct piste_event_info *info;
	volatile uint64_t only; /* The word of the slot that is set, if it is the only one and has no filter. */
	struct piste_slot_filter *volatile filters;      /* One for each slot that has ever had one. */
	const struct piste_filter *volatile filter;      /* The filter of the only slot that is set. */
	const struct piste_filter_range *volatile range; /* The first test of `filter`; NULL if it is not a range. */
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

/* Called by the constructors and destructors that tracepoint.h defines. If pisted is running, registration returns as soon as pisted has
 * enabled the events of the module, but at the latest after $PISTE_REGISTER_TIMEOUT milliseconds (default 3000). */
void piste_module_register(struct piste_module *module, uint32_t abi_major);
void piste_module_unregister(struct piste_module *module);

/* Where to write the fields of one record; `cursor` is NULL if nothing was reserved. */
struct piste_place {
	uint8_t *cursor;
	uint64_t marks;
};

/* The low bits of `marks` are the address of the record's marks; the bits above contain the number of marks and the first mark. */
#define PISTE_PLACE_UNITS_SHIFT 48
#define PISTE_PLACE_UNITS_MAX   16u
#define PISTE_PLACE_FIRST_SHIFT 56

/* Reserves a record in the only channel that records the event, if there is just one and no special case applies. */
struct piste_place piste_record_only(struct piste_event *event, uint64_t bytes);

/* Commits the record, in the same way as piste_mark(). */
static inline __attribute__((always_inline)) void piste_place_commit(struct piste_place place)
{
	uint8_t *marks = (uint8_t *)(uintptr_t)(place.marks & ((UINT64_C(1) << PISTE_PLACE_UNITS_SHIFT) - 1));
	uint8_t units = (uint8_t)(place.marks >> PISTE_PLACE_UNITS_SHIFT);
	uint8_t first = (uint8_t)(place.marks >> PISTE_PLACE_FIRST_SHIFT);

	for (uint8_t unit = 1; unit < units; unit++)
		piste_store_relaxed(marks + unit, (uint8_t)(first & PISTE_MARK_TAG_MASK));
	piste_store_release(marks, first);
}

/* The space that the program provides for the fields as filters see them. */
#define PISTE_SCRATCH_BYTES_MAX 256u

/* An event while it is being recorded. piste_record_begin() sets the first members; the others belong to the runtime. */
struct piste_record {
	struct piste_event *event;
	uint64_t bytes;          /* Size of the fields. */
	uint64_t filtered_bytes; /* Size of the fields as filters see them, including those that are not recorded ... */
	uint8_t *
	        filtered; /* ... and their address. NULL: the event has no filter, or they do not fit into `scratch`. */
	struct piste_slots *slots;
	const void *ip; /* The address after the call that records the event. */
	uint64_t others[12];
	uint64_t scratch[PISTE_SCRATCH_BYTES_MAX / 8];
};

/* Commits what was written since the last call, and reserves space in the next channel that records the event. Returns where to write
 * the fields, or NULL at the end. If the event has filters, the first place may be outside all channels: the filters then read the fields
 * that are written there. Safe in signal handlers and in any thread. */
uint8_t *piste_record_next(struct piste_record *record);

/* Begins to record an event, and returns the first place for its fields. The fields have `bytes` bytes; those that only filters see have
 * another `nowrite_bytes`. If the place's `marks` are not 0, it is in the only channel that records the event: call piste_place_commit() to
 * end the record. Otherwise, call piste_record_next(). Members of the record that are not needed stay unset, because each store delays the
 * next locked instruction. */
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

/* Whether the only filter of an event rejects it at once, so that the event ends here. Its fields must be where filters see them. */
static inline __attribute__((always_inline)) bool piste_record_is_rejected(const struct piste_record *record)
{
	/* ORDER event.filter (acquire): pairs with runtime/modules.c. */
	const struct piste_filter_range *range = piste_load_acquire(&record->event->range);

	return range && record->filtered == (const uint8_t *)record->scratch &&
	       !piste_filter_range_has(range, record->filtered, record->filtered_bytes);
}

/* Records a formatted string as the only field of `event`. `format` and the arguments are as for printf. As safe in signal handlers as the
 * vsnprintf() of the C library. */
void piste_print(struct piste_event *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
