/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A function that is probed where it begins. It is compiled with a frame pointer, so that it begins as functions in programs do, with an instruction
 * that the kernel executes without a single step. */
#include "rounds.h"

__attribute__((noinline, noclone)) void piste_bench_probed(int32_t value);

void piste_bench_probed(int32_t value)
{
	__asm__ volatile("" : : "r"(value) : "memory");
}

VARIANT(record_probed, piste_bench_probed((int32_t)event))

static const struct variant variants[] = {{"probed", record_probed}};

SERVE_ROUNDS(variants)
