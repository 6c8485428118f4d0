/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "same_event.h"

/* Named as in same_event_file.c, with another field. */
PISTE_EVENT(other, event, (const char *, text))

void record_in_a_library(void)
{
	piste(same, event, "library");
	piste(other, event, "seven");
}
