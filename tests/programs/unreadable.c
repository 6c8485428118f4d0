/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* unreadable: events with strings that are not where their pointers point to, or end where their memory does. */
#define _GNU_SOURCE
#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

PISTE_EVENT(unreadable, text, (uint32_t, number), (const char *, text))
PISTE_EVENT(unreadable, nowrite, (uint32_t, number), PISTE_NOWRITE(const char *, text))

/* Two pages of memory, and one behind them that cannot be read. */
static char *pages(size_t page_bytes)
{
	char *memory = mmap(NULL, 3 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory + 2 * page_bytes, page_bytes, PROT_NONE)) {
		perror("unreadable");
		exit(1);
	}
	return memory;
}

int main(void)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = pages(page_bytes), *end = memory + 2 * page_bytes, *gone = pages(page_bytes);
	const char *texts[9];

	memset(memory, 'a', 2 * page_bytes);
	strcpy(end - 5, "last");
	strcpy(gone, "gone");
	mprotect(gone, page_bytes, PROT_NONE);
	texts[0] = "literal";
	texts[1] = NULL;
	texts[2] = (const char *)1;
	texts[3] = (const char *)(uintptr_t)0xdead00000000beef; /* No address of any program. */
	texts[4] = gone;
	texts[5] = end;                     /* Its first byte cannot be read ... */
	texts[6] = end - 5;                 /* ... its zero byte is the last that can ... */
	texts[7] = memory + page_bytes - 3; /* ... it goes on on the next page ... */
	texts[8] = strdup("heap");
	for (uint32_t number = 0; number < 9; number++) {
		piste(unreadable, text, number, texts[number]);
		piste(unreadable, nowrite, number, texts[number]);
	}
	end[-1] = 'a'; /* ... and now it does not end in memory that can be read. */
	piste(unreadable, text, 9, end - 5);
	piste(unreadable, nowrite, 9, end - 5);
	puts("still here");
	return 0;
}
