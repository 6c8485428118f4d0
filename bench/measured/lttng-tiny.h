/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* LTTng-UST's provider file of the event in tiny.c. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng-tiny.h"

#if !defined(BENCH_LTTNG_TINY_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_TINY_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, tiny, LTTNG_UST_TP_ARGS(int32_t, v),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int32_t, v, v)))

#endif

#include <lttng/tracepoint-event.h>
