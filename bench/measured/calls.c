/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A system call that does next to nothing, in a loop: what is added to it is the tracer's. See bench/kernel_events.py.
 */
#define _GNU_SOURCE
#include "rounds.h"

#include <sys/syscall.h>
#include <unistd.h>

VARIANT(call, syscall(SYS_getppid))

static const struct variant variants[] = {{"call", call}};

SERVE_ROUNDS(variants)
