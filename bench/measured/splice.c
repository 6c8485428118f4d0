/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least that somebody can do who keeps what a tracefs instance records: moves the pages of each CPU's ring to a file, as they are.
 * Arguments: the instance's folder, the file. Ends with SIGTERM.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CPU_COUNT_MAX 1024
#define PIPE_BYTES    (1 << 20)

static int output;

static void *move(void *argument)
{
	int ring = (int)(intptr_t)argument, ends[2];
	ssize_t bytes;

	if (pipe(ends) != 0)
		abort();
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	while ((bytes = splice(ring, NULL, ends[1], NULL, PIPE_BYTES, SPLICE_F_MOVE)) > 0)
		while (bytes > 0) {
			ssize_t moved = splice(ends[0], NULL, output, NULL, (size_t)bytes, SPLICE_F_MOVE);

			if (moved <= 0)
				abort();
			bytes -= moved;
		}
	return NULL;
}

int main(int argument_count, char **arguments)
{
	char path[4096];

	if (argument_count != 3)
		return 2;
	output = open(arguments[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (output < 0)
		return 1;
	for (int cpu = 0; cpu < CPU_COUNT_MAX; cpu++) {
		pthread_t thread;
		int ring;

		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/trace_pipe_raw", arguments[1], cpu);
		ring = open(path, O_RDONLY);
		if (ring < 0)
			break;
		if (pthread_create(&thread, NULL, move, (void *)(intptr_t)ring) != 0)
			return 1;
	}
	puts("running");
	fflush(stdout);
	pause();
	return 0;
}
