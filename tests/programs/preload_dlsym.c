/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library whose dlsym() takes memory from the heap, as that of some C libraries does. What it has taken while the heap's own functions
 * were looked for is given back when the program ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char *kept, *grown, *aligned;
static volatile size_t too_much = SIZE_MAX / 2;

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void take_memory(void)
{
	kept = calloc(7, 11);
	expect(kept && kept[0] == 0 && kept[76] == 0);
	memset(kept, 'k', 77);
	grown = malloc(3);
	expect(grown != NULL);
	strcpy(grown, "gr");
	grown = realloc(grown, 100);
	expect(grown && strcmp(grown, "gr") == 0);
	expect(posix_memalign((void **)&aligned, 256, 10) == 0 && (uintptr_t)aligned % 256 == 0);
	/* More than there is for this purpose. */
	expect(!malloc(too_much) && !calloc(too_much, 4));
}

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};

	for (int index = 0; !real && index < 3; index++)
		real = __extension__(void *(*)(void *, const char *)) dlvsym(RTLD_NEXT, "dlsym", versions[index]);
	expect(real != NULL);
	if (!kept)
		take_memory();
	return real(handle, name);
}

static __attribute__((destructor)) void give_back(void)
{
	expect(kept && kept[76] == 'k');
	kept = realloc(kept, 1000000);
	expect(kept && kept[0] == 'k' && kept[76] == 'k');
	grown = realloc(grown, 2);
	expect(grown && memcmp(grown, "gr", 2) == 0);
	free(kept);
	free(grown);
	free(aligned);
}
