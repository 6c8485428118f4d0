/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* nowrite COUNT: events with fields that only filters see, before, between and behind those that are recorded. */
#include <piste/tracepoint.h>
#include <stdlib.h>

PISTE_EVENT(nowrite, fixed, PISTE_NOWRITE(int64_t, latency_ns), (uint32_t, number), PISTE_NOWRITE(double, share))
PISTE_EVENT(nowrite, texts, (uint32_t, number), PISTE_NOWRITE(const char *, customer), (const char *, item))

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;

	for (uint32_t number = 0; number < count; number++) {
		piste(nowrite, fixed, -(int64_t)number, number, number / 2.0);
		piste(nowrite, texts, number, number % 3 ? "ada" : "bob", "tea");
	}
	return 0;
}
