/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the measured programs have in common: they measure on request, so that the driver (crates/bench/src/run.rs, bench/run) can interleave the
 * rounds of several programs. A program has variants, each a loop over one kind of event.
 *
 * Requests are lines on standard input; each is answered by a line on standard output.
 *
 *     about                             what this program can count: "TICK_HZ COUNTER... [- WHY]"; WHY other counters are missing
 *     round VARIANT WARM_UP COUNT       records WARM_UP events unmeasured, then COUNT events: "CPU_NS WALL_NS NAME=COUNT...", without the counters
 *                                       that the processor did not get round to
 *     timed VARIANT WARM_UP COUNT       the same without any counters of the processor: another process does the work, which they do not see
 *     samples VARIANT WARM_UP COUNT     the same, and measures each event alone: "NS..."; a "!" follows a long event if a switch or an interrupt came
 *                                       since the long event before it
 *
 * The first argument of the program is the number of threads that run a round at the same time, each on a CPU of its own. Times are
 * then their mean, counts their sum. The first thread is the one that answers, and the only one that takes samples.
 *
 * Three more arguments, FILE INDEX COUNT, make the program one of several processes of a single thread each, which run their rounds at the same time
 * and meet in that file. The first one, of index 0, has to answer before the others are started.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <stdint.h>

/* Of the variant `payload`. */
#ifndef PAYLOAD_BYTES
#define PAYLOAD_BYTES 4
#endif

struct variant {
	const char *name;
	/* Records `count` events; the number of the first one is `first`. */
	void (*record)(uint64_t first, uint64_t count);
};

/* Serves requests until standard input ends. Returns the program's exit status. */
int serve_rounds(int argument_count, char **arguments, const struct variant *variants, uint32_t variant_count);

#define SERVE_ROUNDS(variants)                                                                                         \
	int main(int argument_count, char **arguments)                                                                 \
	{                                                                                                              \
		return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof((variants)[0]));    \
	}

/* A loop that calls `statement` with each `event`, which is its number. Its cost, a fraction of a nanosecond, is in every figure. */
#define VARIANT(name, statement)                                                                                       \
	static void name(uint64_t first, uint64_t count)                                                               \
	{                                                                                                              \
		for (uint64_t event = first; event < first + count; event++)                                           \
			statement;                                                                                     \
	}

#endif
