// SPDX-License-Identifier: MIT OR Apache-2.0
/* An event, a system call, an event, as often as the argument says. */

#include <piste/tracepoint.h>

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

PISTE_EVENT(brackets, before, (uint32_t, number))
PISTE_EVENT(brackets, after, (uint32_t, number))

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000;
	for (uint32_t number = 0; number < count; number++) {
		piste(brackets, before, number);
		syscall(SYS_getppid);
		piste(brackets, after, number);
	}
}
