/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The event of a turn, for Piste. */
#include "turn.h"

#include <piste/tracepoint.h>

#if PAYLOAD_BYTES == 4

PISTE_EVENT(bench, plain, (int32_t, v))

TURN_EXPORTED void piste_bench_turn(uint32_t number)
{
	piste(bench, plain, (int32_t)number);
}

TURN_EXPORTED int piste_bench_turn_is_recorded(void)
{
	return piste_enabled(bench, plain);
}

#else

PISTE_EVENT(bench, payload, PISTE_ARRAY(uint8_t, bytes, PAYLOAD_BYTES))

static const uint8_t bytes[PAYLOAD_BYTES] = {1};

TURN_EXPORTED void piste_bench_turn(uint32_t number)
{
	(void)number;
	piste(bench, payload, bytes);
}

TURN_EXPORTED int piste_bench_turn_is_recorded(void)
{
	return piste_enabled(bench, payload);
}

#endif
