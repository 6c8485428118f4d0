// SPDX-License-Identifier: MIT OR Apache-2.0
// Touches new memory all the time: frees it, and allocates it again. Exits with 1 when there is none.
#include <sys/mman.h>

enum { ROUNDS = 400, BYTES = 1 << 18, PAGE_BYTES = 4096 };

int main(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		char *memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return 1;
		for (int place = 0; place < BYTES; place += PAGE_BYTES)
			memory[place] = 1;
		munmap(memory, BYTES);
	}
}
