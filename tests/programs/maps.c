// SPDX-License-Identifier: MIT OR Apache-2.0
/* Maps code as often as the argument says. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES 4096

int main(int argc, char **argv)
{
	for (long left = argc > 1 ? atol(argv[1]) : 0; left > 0; left--) {
		void *code = mmap(NULL, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (code == MAP_FAILED || munmap(code, BYTES) != 0) {
			perror("maps");
			return 1;
		}
	}
	return 0;
}
