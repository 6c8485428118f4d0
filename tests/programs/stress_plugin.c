/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The library that stress.c opens and closes: an event of its own, and one that the program has too. */
#include <piste/tracepoint.h>

PISTE_EVENT(stress, nothing)
PISTE_EVENT(stress_plugin, loaded, (const char *, who))

uint64_t plugin_record(void);

uint64_t plugin_record(void)
{
	for (int number = 0; number < 100; number++) {
		piste(stress_plugin, loaded, "plugin");
		piste(stress, nothing);
	}
	return 200;
}
