/* SPDX-License-Identifier: MIT */
/*
 * What the program keeps of an event: its description, read only, and its state, by which the runtime enables it. Both are static
 * objects of the file that uses the event; the states of a program or library lie together in one section, which a constructor hands
 * to the runtime. Next: fields.h (fields), tracepoint.h (the macros that make these objects).
 */
#ifndef PISTE_EVENT_H
#define PISTE_EVENT_H

#include "abi/event.h"
#include "abi/protocol.h"
#include "ring.h"

struct piste_label {
	const char *name;
	int64_t value;
};

struct piste_field {
	const char *name;
	const struct piste_label *labels; /* Of PISTE_FIELD_ENUM. */
	uint32_t count;                   /* Of labels, or of an array's elements. */
	uint8_t kind;                     /* enum piste_field_kind */
	uint8_t element;                  /* enum piste_element */
	uint8_t base;
};

struct piste_event_info {
	const char *provider;
	const char *name;
	const struct piste_field *fields;
	uint16_t field_count;
	uint8_t level; /* enum piste_level */
};

#define PISTE_EVENT_MAGIC 0x56455350u /* "PSEV" */
#define PISTE_EVENT_BYTES 128

/* The disabled event costs the load of `enabled` and a branch. Volatile, because the runtime writes through the section, which a
 * compiler does not see: to it a static object that nobody writes to is a constant. */
struct piste_event {
	volatile uint32_t
	        enabled; /* Bit i: slot[i] names a channel that records the event. The runtime sets the slot first. */
	uint32_t magic;
	const struct piste_event_info *info;
	volatile uint64_t slot[PISTE_CHANNEL_COUNT_MAX]; /* Channel and id, see piste_enabled_channel(). */
	uint64_t reserved[6];
} __attribute__((aligned(PISTE_EVENT_BYTES)));

/* One for each program and library. */
struct piste_module {
	struct piste_thread_offsets offsets; /* The runtime fills in. */
	uint32_t registered;
	uint32_t id; /* The runtime's. */
	struct piste_event *events;
	struct piste_event *events_end;
	struct piste_module *next; /* The runtime's. */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Called by constructors and destructors that tracepoint.h makes. Registration returns once a running pisted has enabled the
 * module's events, at the latest after $PISTE_REGISTER_TIMEOUT milliseconds (default 3000). */
void piste_module_register(struct piste_module *module, uint32_t abi_major);
void piste_module_unregister(struct piste_module *module);

/* Records a formatted string as the only field of `event`. `format` is printf's. As signal safe as the C library's vsnprintf. */
void piste_print(struct piste_event *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
