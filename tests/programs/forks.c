/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* forks COUNT: a process, its child, the child's child and so on: so many, each of which records an event. */
#include <piste/tracepoint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

PISTE_EVENT(forks, generation, (uint32_t, number))

int main(int argc, char **argv)
{
	uint32_t last = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1, number = 0;
	int status = 0;

	while (number < last && fork() == 0) {
		number++;
		piste(forks, generation, number);
	}
	while (wait(&status) > 0)
		if (status != 0)
			return 1;
	return 0;
}
