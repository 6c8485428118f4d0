/* SPDX-License-Identifier: MIT */
/*
 * Preload helper `functions`: entry and exit of each function of a program that is built with -finstrument-functions, which has gcc and
 * clang put a call of the two functions here at the start and the end of each. The C library has empty ones for when we are absent.
 *
 * Cost: the event alone. Built without instrumentation itself (Makefile), so that it does not call itself.
 */
#include <piste/tracepoint.h>

PISTE_EVENT_LEVEL(lttng_ust_cyg_profile, func_entry, DEBUG_FUNCTION, (void *, addr), (void *, call_site))
PISTE_EVENT_LEVEL(lttng_ust_cyg_profile, func_exit, DEBUG_FUNCTION, (void *, addr), (void *, call_site))

void __cyg_profile_func_enter(void *addr, void *call_site);
void __cyg_profile_func_exit(void *addr, void *call_site);

void __cyg_profile_func_enter(void *addr, void *call_site)
{
	piste(lttng_ust_cyg_profile, func_entry, addr, call_site);
}

void __cyg_profile_func_exit(void *addr, void *call_site)
{
	piste(lttng_ust_cyg_profile, func_exit, addr, call_site);
}
