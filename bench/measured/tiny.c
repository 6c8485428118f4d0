/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The smallest program with an event, for what a program costs beside its events: its start, and its place in the daemon. Built three
 * times: with Piste (-DPISTE), with LTTng-UST (-DLTTNG), and with neither. With an argument it says that it runs and waits to be ended.
 */
#if defined(PISTE)
#include <piste/tracepoint.h>
PISTE_EVENT(bench, tiny, (int32_t, v))
#define EVENT(value) piste(bench, tiny, value)
#elif defined(LTTNG)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng-tiny.h"
#define EVENT(value) lttng_ust_tracepoint(bench, tiny, value)
#else
#define EVENT(value) (void)(value)
#endif

#include <unistd.h>

int main(int argument_count, char **arguments)
{
	(void)arguments;
	EVENT(argument_count);
	if (argument_count > 1) {
		if (write(STDOUT_FILENO, "running\n", 8) != 8)
			return 1;
		pause();
	}
	return 0;
}
