// SPDX-License-Identifier: MIT OR Apache-2.0
/* numbered_calls COUNT REST PART: closes descriptors that do not exist: FIRST, FIRST + 1, ..., COUNT of them, a system call each. Rests for
 * REST microseconds after each hundred. Waits for a line before it begins, before it goes on after each PART of them where that is said, and
 * before it ends. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST 1000000

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1000;
	useconds_t rest_us = argc > 2 ? (useconds_t)atoi(argv[2]) : 0;
	int part = argc > 3 ? atoi(argv[3]) : count;
	char line[16];
	/* What is for somebody who reads the same pipe later is left there. */
	setvbuf(stdin, NULL, _IONBF, 0);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int number = 0; number < count; number++) {
		if (number && number % part == 0) {
			puts("part");
			fflush(stdout);
			if (!fgets(line, sizeof line, stdin))
				return 1;
		}
		close(FIRST + number);
		if (rest_us && number % 100 == 99)
			usleep(rest_us);
	}
	puts("done");
	fflush(stdout);
	return fgets(line, sizeof line, stdin) ? 0 : 1;
}
