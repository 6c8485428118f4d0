/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two threads that say everything that fields.h can, then a flood that small buffers do not hold. */

/* The provider of formatted texts is in the library. */
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "fields.h"

#include <float.h>
#include <limits.h>
#include <lttng/tracef.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static void *say(void *unused)
{
	static const int64_t integers[] = {0, 1, -1, 127, 128, -129, 65535, INT_MAX, INT64_MAX, INT64_MIN, 0x123456789abcdef0};
	static const double floats[] = {0, -0.0, 1.5, 1e-10, 123456.789, 1e300, FLT_MIN, INFINITY, NAN, -2.5e-7, 1.0 / 3};
	/* None is empty: babeltrace2 2.0 shows the text of an earlier event for that. */
	static const char *const texts[] = {" ", "plain", "Grüße, 世界", "a \"quote\"\n\t\\ and 'others'?\x01\x7f", "\xff\xfe"};
	static const int32_t values[] = {1, -1, INT_MAX, INT_MIN, 0x01020304, 7, 0, -8};

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < sizeof(integers) / sizeof(*integers); i++)
			lttng_ust_tracepoint(kinds, integers, integers[i]);
		for (unsigned i = 0; i < sizeof(floats) / sizeof(*floats); i++)
			lttng_ust_tracepoint(kinds, floats, floats[i]);
		for (int i = -2; i < 10; i++)
			lttng_ust_tracepoint(kinds, enums, i);
		lttng_ust_tracepoint(kinds, enums, 200);
		for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++)
			lttng_ust_tracepoint(kinds, texts, texts[i], "ab\0defgh", i + 1);
		for (int length = 0; length < 8; length++)
			lttng_ust_tracepoint(kinds, arrays, values, length);
		lttng_ust_tracepoint(kinds, nothing);
		lttng_ust_tracepoint(kinds, many0, round);
		lttng_ust_tracepoint(kinds, many29, round);
		lttng_ust_tracef("round %u of \"%s\"", round, "this");
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t other;

	pthread_create(&other, NULL, say, NULL);
	say(NULL);
	pthread_join(other, NULL);
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++)
		lttng_ust_tracepoint(kinds, many1, i);
	return 0;
}
