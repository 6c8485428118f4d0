/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the measured programs have in common: they run rounds on request, so that the driver (bench/run) can interleave the rounds of
 * several programs. A program has variants, each a loop over one kind of event.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <stdint.h>

struct variant {
	const char *name;
	void (*record)(uint64_t count);
};

/* Reads lines "VARIANT WARM_UP COUNT" from standard input. For each it records WARM_UP events unmeasured, then COUNT events, and writes
 * a line "CPU WALL" with the nanoseconds that the COUNT events took. The first argument of the program is the number of threads
 * that each do so at the same time, each on a CPU of its own; the times are then their mean. The first thread is the one that calls.
 * Returns the program's exit status. */
int serve_rounds(int argument_count, char **arguments, const struct variant *variants, uint32_t variant_count);

#define SERVE_ROUNDS(variants)                                                                                         \
	int main(int argument_count, char **arguments)                                                                 \
	{                                                                                                              \
		return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof((variants)[0]));    \
	}

/* A loop that calls `statement` for each `event` from 0 to `count`. Its cost, a fraction of a nanosecond, is in every figure. */
#define VARIANT(name, statement)                                                                                       \
	static void name(uint64_t count)                                                                               \
	{                                                                                                              \
		for (uint64_t event = 0; event < count; event++)                                                       \
			statement;                                                                                     \
	}

#endif
