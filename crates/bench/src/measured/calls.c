/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls in a loop: what is added to them is the tracer's. One that does next to nothing, and three that read a file, of which one takes its
 * name. See crates/bench/src/peers and bench/kernel_events.py.
 */
#define _GNU_SOURCE
#include "rounds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void read_file(void)
{
	char byte;
	int file = open("/etc/hostname", O_RDONLY | O_CLOEXEC);

	if (file < 0 || read(file, &byte, 1) < 0)
		abort();
	close(file);
}

VARIANT(call, syscall(SYS_getppid))
VARIANT(file, read_file())

static const struct variant variants[] = {{"call", call}, {"file", file}};

int main(int argument_count, char **arguments)
{
	/* strace may attach, although it is no parent of this one (the security module Yama). */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof(variants[0]));
}
