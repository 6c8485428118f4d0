/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a program can write into the kernel's rings by itself: text to trace_marker, bytes behind a number to trace_marker_raw. $PISTE_BENCH_TEXT and
 * $PISTE_BENCH_RAW are these files, each of a tracefs instance of its own. */
#define _GNU_SOURCE
#include "rounds.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int text_file, raw_file;

static void write_text(void)
{
	if (write(text_file, "1234", 4) != 4)
		abort();
}

static void write_raw(int32_t value)
{
	const int32_t record[2] = {1, value};

	if (write(raw_file, record, sizeof(record)) != sizeof(record))
		abort();
}

VARIANT(record_text, write_text())
VARIANT(record_raw, write_raw((int32_t)event))

static const struct variant variants[] = {{"text", record_text}, {"raw", record_raw}};

static int open_file(const char *variable)
{
	const char *path = getenv(variable);
	int file = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;

	if (file < 0)
		perror(path ? path : variable);
	return file;
}

int main(int argument_count, char **arguments)
{
	text_file = open_file("PISTE_BENCH_TEXT");
	raw_file = open_file("PISTE_BENCH_RAW");
	if (text_file < 0 || raw_file < 0)
		return 1;
	return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof(variants[0]));
}
