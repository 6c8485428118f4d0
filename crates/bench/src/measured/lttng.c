/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* LTTng-UST's events: piste.c with the other tracer, inlined as far as it can be (_LGPL_SOURCE). */
#define _LGPL_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng-event.h"

#include "rounds.h"

/* In lttng-formatted.c: its provider is in liblttng-ust, and would be defined again here. */
void record_formatted(uint64_t first, uint64_t count);

static const uint8_t bytes[PAYLOAD_BYTES] = {1};
static const uint64_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};

VARIANT(record_disabled, lttng_ust_tracepoint(bench, disabled, (int32_t)event))
VARIANT(record_plain, lttng_ust_tracepoint(bench, plain, (int32_t)event))
VARIANT(record_contexts, lttng_ust_tracepoint(bench, contexts, (int32_t)event))
VARIANT(record_disk, lttng_ust_tracepoint(bench, disk, (int32_t)event))
VARIANT(record_filtered, lttng_ust_tracepoint(bench, filtered, (int32_t)(event % 100)))
VARIANT(record_payload, lttng_ust_tracepoint(bench, payload, bytes))
VARIANT(record_array, lttng_ust_tracepoint(bench, array, words))
VARIANT(record_fields, lttng_ust_tracepoint(bench, fields, event, event, event, event, event, event, event, event))

static const struct variant variants[] = {
        {"disabled", record_disabled},   {"plain", record_plain},       {"contexts", record_contexts},
        {"disk", record_disk},           {"array", record_array},       {"fields", record_fields},
        {"formatted", record_formatted}, {"filtered", record_filtered}, {"payload", record_payload},
};

SERVE_ROUNDS(variants)
