/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* naps COUNT: sleeps for five milliseconds, COUNT times. */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	for (int left = argc > 1 ? atoi(argv[1]) : 0; left > 0; left--) {
		struct timespec rest = {0, 5000000};

		while (nanosleep(&rest, &rest))
			;
	}
	return 0;
}
