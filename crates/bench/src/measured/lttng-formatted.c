/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* LTTng-UST's formatted event. Apart from lttng.c, because its provider is in liblttng-ust and would be defined again there. */
#include <lttng/tracef.h>
#include <stdint.h>

void record_formatted(uint64_t first, uint64_t count);

void record_formatted(uint64_t first, uint64_t count)
{
	for (uint64_t event = first; event < first + count; event++)
		lttng_ust_tracef("v %d", (int)event);
}
