/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The event of a turn, for a probe where the function begins. It is compiled with a frame pointer: see probed.c. */
#include "turn.h"

TURN_EXPORTED void piste_bench_turn(uint32_t number)
{
	__asm__ volatile("" : : "r"(number) : "memory");
}

/* The probe is there before the program starts. */
TURN_EXPORTED int piste_bench_turn_is_recorded(void)
{
	return 1;
}
