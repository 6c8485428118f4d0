/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "same_event.h"

/* The same name with other fields: an event of its own. */
PISTE_EVENT(other, event, (int32_t, number))

void record_in_another_file(void)
{
	piste(same, event, "another file");
	piste(other, event, 7);
}
