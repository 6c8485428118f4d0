/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Piste's events. Which session and channel records an event goes by its name: see
 * crates/bench/src/peers/piste.rs and bench/tracers.py. Beside it: lttng.c, the
 * same with LTTng-UST.
 */
#include "rounds.h"

#include <piste/tracepoint.h>

PISTE_EVENT(bench, disabled, (int32_t, v))
PISTE_EVENT(bench, plain, (int32_t, v))
PISTE_EVENT(bench, contexts, (int32_t, v))
PISTE_EVENT(bench, disk, (int32_t, v))
PISTE_EVENT(bench, discard, (int32_t, v))
PISTE_EVENT(bench, block, (int32_t, v))
PISTE_EVENT(bench, filtered, (int32_t, v))
PISTE_EVENT(bench, payload, PISTE_ARRAY(uint8_t, bytes, PAYLOAD_BYTES))
PISTE_EVENT(bench, array, PISTE_ARRAY(uint64_t, words, 8))
PISTE_EVENT(bench, fields, (uint64_t, a), (uint64_t, b), (uint64_t, c), (uint64_t, d), (uint64_t, e), (uint64_t, f),
            (uint64_t, g), (uint64_t, h))

static const uint8_t bytes[PAYLOAD_BYTES] = {1};
static const uint64_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};

VARIANT(record_disabled, piste(bench, disabled, (int32_t)event))
VARIANT(record_plain, piste(bench, plain, (int32_t)event))
VARIANT(record_contexts, piste(bench, contexts, (int32_t)event))
VARIANT(record_disk, piste(bench, disk, (int32_t)event))
VARIANT(record_discard, piste(bench, discard, (int32_t)event))
VARIANT(record_block, piste(bench, block, (int32_t)event))
VARIANT(record_filtered, piste(bench, filtered, (int32_t)(event % 100)))
VARIANT(record_payload, piste(bench, payload, bytes))
VARIANT(record_array, piste(bench, array, words))
VARIANT(record_fields, piste(bench, fields, event, event, event, event, event, event, event, event))
VARIANT(record_formatted, piste_printf("v %d", (int)event))

static const struct variant variants[] = {
        {"disabled", record_disabled},   {"plain", record_plain},       {"contexts", record_contexts},
        {"disk", record_disk},           {"array", record_array},       {"fields", record_fields},
        {"formatted", record_formatted}, {"filtered", record_filtered}, {"discard", record_discard},
        {"block", record_block},         {"payload", record_payload},
};

SERVE_ROUNDS(variants)
