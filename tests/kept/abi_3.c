/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* abi_3: records an event when its standard input ends, and says whether it was enabled. See README.md. */
#include <piste/tracepoint.h>
#include <stdio.h>

PISTE_EVENT(kept, whole, (int32_t, number), (const char *, text))

int main(void)
{
	while (getchar() != EOF)
		;
	piste(kept, whole, 1, "one");
	puts(piste_enabled(kept, whole) ? "enabled" : "never enabled");
	return 0;
}
