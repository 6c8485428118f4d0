/* SPDX-License-Identifier: MIT */
/*
 * The trace clock as the event path reads it, in ticks. pisted chooses the clock of each channel (enum piste_clock).
 */
#ifndef PISTE_CLOCK_H
#define PISTE_CLOCK_H

#include <stdint.h>

#include "abi/ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns CLOCK_MONOTONIC in nanoseconds. Safe in signal handlers. */
uint64_t piste_clock_monotonic(void);

#ifdef __cplusplus
}
#endif

/* Returns the time in ticks. The TSC is read without waiting for older loads, unless `ordered` is set. */
static inline __attribute__((always_inline)) uint64_t piste_clock_ticks(uint32_t clock, int ordered)
{
#if defined(__x86_64__)
	if (__builtin_expect(clock == PISTE_CLOCK_TSC, 1)) {
		if (__builtin_expect(ordered, 0))
			__builtin_ia32_lfence();
		return __builtin_ia32_rdtsc();
	}
#else
	(void)clock;
#endif
	(void)ordered;
	return piste_clock_monotonic();
}

#endif
