/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls in a loop: what is added to them is the tracer's. One that does next to nothing, one with a file name of PAYLOAD_BYTES, which a tracer
 * may record, and three that read a file. See crates/bench/src/peers and bench/kernel_events.py.
 */
#define _GNU_SOURCE
#include "rounds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

/* There is no such file, so there is nothing to close. The kernel skips the slashes at the beginning. */
static char missing_file[PAYLOAD_BYTES + 1];

static void name_missing_file(void)
{
	const char *last = "/none";

	memset(missing_file, '/', PAYLOAD_BYTES);
	if (PAYLOAD_BYTES > strlen(last))
		strcpy(missing_file + PAYLOAD_BYTES - strlen(last), last);
}

VARIANT(call, syscall(SYS_getppid))
VARIANT(open_missing_file, syscall(SYS_openat, AT_FDCWD, missing_file, O_RDONLY))
VARIANT(file, read_file())

static const struct variant variants[] = {{"call", call}, {"payload", open_missing_file}, {"file", file}};

int main(int argument_count, char **arguments)
{
	name_missing_file();
	/* strace may attach, although it is no parent of this one (the security module Yama). */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof(variants[0]));
}
