/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Starts programs on request and measures from before the fork to after the exit. Reads lines with a program's path from standard
 * input, and answers each with the nanoseconds of wall time that one run of it took: a program waits for its daemon asleep.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void)
{
	char path[4096];

	while (fgets(path, sizeof(path), stdin)) {
		uint64_t begin_ns = now_ns();
		char *arguments[] = {path, NULL};
		int status;
		pid_t child;

		path[strcspn(path, "\n")] = 0;
		if (posix_spawn(&child, path, NULL, NULL, arguments, environ) != 0 ||
		    waitpid(child, &status, 0) != child || status != 0) {
			fprintf(stderr, "start: %s did not run\n", path);
			return 1;
		}
		printf("%llu\n", (unsigned long long)(now_ns() - begin_ns));
		fflush(stdout);
	}
	return 0;
}
