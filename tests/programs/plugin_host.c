/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* plugin_host PATH TIMES: loads plugin.c's library, calls it and unloads it, again and again. Has no events of its own. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	unsigned long times = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	for (uint32_t number = 0; number < times; number++) {
		void *library = dlopen(argv[1], RTLD_NOW);
		void (*call)(uint32_t);
		void *symbol = library ? dlsym(library, "plugin_call") : NULL;

		if (!symbol) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		memcpy(&call, &symbol, sizeof(call));
		call(number);
		dlclose(library);
		if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) {
			fprintf(stderr, "the library stays loaded\n");
			return 1;
		}
	}
	return 0;
}
