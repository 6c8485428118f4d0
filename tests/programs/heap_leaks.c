/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* heap_leaks [LIBRARY...]: takes memory in sizes that nobody else takes, and forgets some of it. Loads each library, calls its function
 * `forget`, and unloads it, before the next one. Prints how much its process held of these sizes at most, and holds at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept[64];

static __attribute__((noinline)) void forgets(void)
{
	for (int turn = 0; turn < 10; turn++)
		kept[turn] = malloc(100003);
}

static __attribute__((noinline)) void begins(void)
{
	kept[10] = malloc(50021);
}

/* What lives in the end is whose who asked for the last size. */
static __attribute__((noinline)) void grows(void)
{
	kept[10] = realloc(kept[10], 300007);
}

static __attribute__((noinline)) void gives_back(void)
{
	for (int turn = 0; turn < 7; turn++) {
		kept[11] = calloc(3, 70001);
		free(kept[11]);
	}
	kept[11] = NULL;
}

static __attribute__((noinline)) void aligns(void)
{
	void *pointer = NULL;

	if (posix_memalign(&pointer, 4096, 40009) == 0)
		kept[12] = pointer;
	kept[13] = aligned_alloc(64, 64 * 1000);
	free(kept[13]);
	kept[13] = NULL;
}

int main(int argc, char **argv)
{
	/* The compiler may not know the size, nor that it is too much. */
	volatile size_t too_much = (size_t)1 << 62;

	forgets();
	begins();
	grows();
	gives_back();
	aligns();
	kept[14] = malloc(too_much);
	for (int library = 1; library < argc; library++) {
		void *handle = dlopen(argv[library], RTLD_NOW);
		void *symbol = handle ? dlsym(handle, "forget") : NULL;
		void (*forget)(void);

		/* ISO C knows no other way from the one pointer to the other. */
		memcpy(&forget, &symbol, sizeof(forget));
		if (!symbol) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		forget();
		dlclose(handle);
	}
	printf("%d %d\n", 10 * 100003 + 300007 + 3 * 70001, 10 * 100003 + 300007 + 40009);
	return 0;
}
