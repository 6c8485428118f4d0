/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * preload_libraries TIMES NAME...: loads and unloads the libraries of those names, again and again, then the first one into a namespace
 * of its own, and last one that is not there. Has no events of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	unsigned long times = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	void *library;

	for (unsigned long turn = 0; turn < times; turn++)
		for (int index = 2; index < argc; index++) {
			library = dlopen(argv[index], RTLD_NOW);
			if (!library || dlerror()) {
				fprintf(stderr, "%s\n", dlerror());
				return 1;
			}
			dlclose(library);
			if (strchr(argv[index], '/') && dlopen(argv[index], RTLD_NOW | RTLD_NOLOAD)) {
				fprintf(stderr, "%s stays loaded\n", argv[index]);
				return 1;
			}
		}
	library = argc > 2 ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW) : NULL;
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	dlclose(library);
	if (dlopen("libthat-is-not-there.so", RTLD_NOW))
		return 1;
	puts(dlerror());
	return dlopen(NULL, RTLD_NOW) ? 0 : 1;
}
