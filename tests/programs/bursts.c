/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* bursts ROUNDS COUNT: takes COUNT blocks of memory and gives all of them back, ROUNDS times. Which function calls which is seen below; no
 * other calls the heap. */
#include <stdlib.h>

enum { COUNT_MAX = 1 << 16, BYTES = 1009 };

static void *volatile blocks[COUNT_MAX];

static __attribute__((noinline)) void takes_one(int index)
{
	blocks[index] = malloc(BYTES);
}

static __attribute__((noinline)) void takes(int count)
{
	for (int index = 0; index < count; index++)
		takes_one(index);
}

static __attribute__((noinline)) void gives_one(int index)
{
	free(blocks[index]);
	blocks[index] = NULL;
}

static __attribute__((noinline)) void gives(int count)
{
	for (int index = 0; index < count; index++)
		gives_one(index);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 1;
	int count = argc > 2 ? atoi(argv[2]) : 1;

	if (count > COUNT_MAX)
		return 1;
	for (int round = 0; round < rounds; round++) {
		takes(count);
		gives(count);
	}
	return 0;
}
