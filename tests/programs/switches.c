// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two processes on one CPU that hand a byte to and fro, as often as the argument says: each time a switch. */

#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1000;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof one, &one))
		return 1;
	int there[2], back[2];
	if (pipe(there) || pipe(back))
		return 1;
	pid_t child = fork();
	char byte = 'x';
	for (int i = 0; i < count; i++) {
		if (child == 0) {
			if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
				_exit(1);
		} else if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) {
			return 1;
		}
	}
	if (child == 0)
		_exit(0);
	int status;
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
