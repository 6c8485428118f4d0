/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A static probe (USDT): one instruction that does nothing until somebody puts a breakpoint there. */
#include "rounds.h"

#include <sys/sdt.h>

VARIANT(record_probe, DTRACE_PROBE1(piste_bench, event, (int32_t)event))

static const struct variant variants[] = {{"probe", record_probe}};

SERVE_ROUNDS(variants)
