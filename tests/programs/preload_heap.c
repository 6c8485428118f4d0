/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * preload_heap THREADS TIMES: every way to take memory from the heap, TIMES in each of THREADS threads, then the same in a forked child.
 * Has no events of its own. The sizes below tell the calls apart from others' in the trace.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EARLY = 30011,
	MALLOC = 30101, /* The least but EARLY: so much of each block is written to. */
	CALLOC = 30203,
	REALLOC = 30307,
	REALLOCARRAY = 30403,
	MEMALIGN = 30509,
	POSIX_MEMALIGN = 30603,
	ALIGNED_ALLOC = 30720,
	VALLOC = 30803,
	STRDUP = 30903,
};

static char text[STRDUP];
static unsigned long times;

static void check(const void *block, uintptr_t alignment)
{
	if (!block || (uintptr_t)block % alignment != 0)
		abort();
}

/* Before any constructor of another file, and before main. */
static __attribute__((constructor(101))) void early(void)
{
	void *volatile block = malloc(EARLY);

	free(block);
}

static void *work(void *unused)
{
	for (unsigned long turn = 0; turn < times; turn++) {
		void *blocks[9];

		blocks[0] = malloc(MALLOC);
		blocks[1] = calloc(1, CALLOC);
		blocks[2] = realloc(malloc(1), REALLOC);
		blocks[3] = reallocarray(NULL, 1, REALLOCARRAY);
		blocks[4] = memalign(64, MEMALIGN);
		if (posix_memalign(&blocks[5], 128, POSIX_MEMALIGN) != 0)
			abort();
		blocks[6] = aligned_alloc(256, ALIGNED_ALLOC);
		blocks[7] = valloc(VALLOC);
		blocks[8] = strdup(text);
		check(blocks[4], 64);
		check(blocks[5], 128);
		check(blocks[6], 256);
		check(blocks[7], 4096);
		for (int index = 0; index < 9; index++) {
			check(blocks[index], 1);
			memset(blocks[index], 1, MALLOC);
			free(blocks[index]);
		}
		free(NULL);
	}
	return unused;
}

static void work_in_threads(unsigned long count)
{
	pthread_t threads[64];

	for (unsigned long index = 0; index < count; index++)
		if (pthread_create(&threads[index], NULL, work, NULL) != 0)
			abort();
	for (unsigned long index = 0; index < count; index++)
		pthread_join(threads[index], NULL);
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 2 ? strtoul(argv[1], NULL, 10) % 65 : 1;
	int status;
	pid_t child;

	times = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	memset(text, 'a', STRDUP - 1);
	work_in_threads(count);
	child = fork();
	if (child == 0) {
		work_in_threads(count);
		_exit(7);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 1;
}
