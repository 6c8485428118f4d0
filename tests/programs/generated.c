// SPDX-License-Identifier: MIT OR Apache-2.0
/* generated [NAME]: makes room for code, as compilers at run time do, and says in an event where a function is in it. With NAME, it writes the
 * file by which perf would know the function. Prints its pid and the address. */

#include <piste/tracepoint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

PISTE_EVENT(generated, call, (void *, code))

enum { ROOM_BYTES = 4096, FUNCTION_AT = 64, FUNCTION_BYTES = 32, BEHIND = 4 };

int main(int argc, char **argv)
{
	char *room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *function = room + FUNCTION_AT;
	if (room == MAP_FAILED)
		return 1;
	if (argc > 1) {
		char path[64];
		snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
		FILE *map = fopen(path, "w");
		if (!map)
			return 1;
		fprintf(map, "%lx %x %s\n", (unsigned long)function, FUNCTION_BYTES, argv[1]);
		fclose(map);
	}
	piste(generated, call, function + BEHIND);
	printf("%d %lx\n", getpid(), (unsigned long)function);
	return 0;
}
