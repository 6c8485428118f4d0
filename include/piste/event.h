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

/* A disabled event costs the load of `enabled` and a branch. The members are volatile because the runtime writes them through the
 * section, which the compiler does not see: it would treat a static object that is never written to as a constant. */
struct piste_event {
	volatile uint32_t
	        enabled; /* Bit i: slot[i] names a channel that records the event. The runtime sets the slot before the bit. */
	uint32_t magic;
	const struct piste_event_info *info;
	volatile uint64_t slot[PISTE_CHANNEL_COUNT_MAX]; /* Channel and event id; see piste_enabled_channel(). */
	uint64_t reserved[6];
} __attribute__((aligned(PISTE_EVENT_BYTES)));

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

/* Records a formatted string as the only field of `event`. `format` is that of printf. As safe in signal handlers as the vsnprintf of
 * the C library. */
void piste_print(struct piste_event *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
