// SPDX-License-Identifier: MIT OR Apache-2.0
/* untouched FILE: asks whether paths exist that are hard to read: one in a page of FILE that the program has not touched, none at all, one at an
 * address that does not exist, one that ends where memory does, one that does not end there, and one that is longer than any path. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
	static const char late[] = "/none/late", edge[] = "/none/edge";
	static char longest[PAGE + 10];
	int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	const char *volatile nowhere = NULL;
	char *page, *pages;

	if (file < 0 || write(file, late, sizeof late) != sizeof late || ftruncate(file, PAGE) != 0)
		return 1;
	page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || pages == MAP_FAILED || munmap(pages + PAGE, PAGE) != 0)
		return 1;
	access(page, F_OK);
	access(nowhere, F_OK);
	access((const char *)8, F_OK);
	memcpy(pages + PAGE - sizeof edge, edge, sizeof edge);
	access(pages + PAGE - sizeof edge, F_OK);
	memset(pages, 'x', PAGE);
	access(pages, F_OK);
	memset(longest, 'y', sizeof longest - 1);
	access(longest, F_OK);
	return 0;
}
