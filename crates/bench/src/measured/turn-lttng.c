/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The event of a turn, for LTTng-UST, inlined as far as it can be (_LGPL_SOURCE). */
#define _LGPL_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng-event.h"

#include "turn.h"

#if PAYLOAD_BYTES == 4

TURN_EXPORTED void piste_bench_turn(uint32_t number)
{
	lttng_ust_tracepoint(bench, plain, (int32_t)number);
}

TURN_EXPORTED int piste_bench_turn_is_recorded(void)
{
	return lttng_ust_tracepoint_enabled(bench, plain);
}

#else

static const uint8_t bytes[PAYLOAD_BYTES] = {1};

TURN_EXPORTED void piste_bench_turn(uint32_t number)
{
	(void)number;
	lttng_ust_tracepoint(bench, payload, bytes);
}

TURN_EXPORTED int piste_bench_turn_is_recorded(void)
{
	return lttng_ust_tracepoint_enabled(bench, payload);
}

#endif
