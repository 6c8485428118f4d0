/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* LTTng-UST's provider file of the events in piste.c. Its form, read several times over, is LTTng-UST's. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng-event.h"

#if !defined(BENCH_LTTNG_EVENT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_EVENT_H

#include "rounds.h"

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT_CLASS(bench, number, LTTNG_UST_TP_ARGS(int32_t, v),
                                 LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int32_t, v, v)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, number, bench, disabled, LTTNG_UST_TP_ARGS(int32_t, v))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, number, bench, plain, LTTNG_UST_TP_ARGS(int32_t, v))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, number, bench, contexts, LTTNG_UST_TP_ARGS(int32_t, v))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, number, bench, disk, LTTNG_UST_TP_ARGS(int32_t, v))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, number, bench, filtered, LTTNG_UST_TP_ARGS(int32_t, v))

LTTNG_UST_TRACEPOINT_EVENT(bench, payload, LTTNG_UST_TP_ARGS(const uint8_t *, bytes),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_array(uint8_t, bytes, bytes, PAYLOAD_BYTES)))
LTTNG_UST_TRACEPOINT_EVENT(bench, array, LTTNG_UST_TP_ARGS(const uint64_t *, words),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_array(uint64_t, words, words, 8)))
LTTNG_UST_TRACEPOINT_EVENT(
        bench, fields,
        LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d, uint64_t, e, uint64_t, f, uint64_t, g,
                          uint64_t, h),
        LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a) lttng_ust_field_integer(uint64_t, b, b)
                                    lttng_ust_field_integer(uint64_t, c, c) lttng_ust_field_integer(uint64_t, d, d)
                                            lttng_ust_field_integer(uint64_t, e, e)
                                                    lttng_ust_field_integer(uint64_t, f, f)
                                                            lttng_ust_field_integer(uint64_t, g, g)
                                                                    lttng_ust_field_integer(uint64_t, h, h)))

#endif

#include <lttng/tracepoint-event.h>
