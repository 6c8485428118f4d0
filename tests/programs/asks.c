/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* asks: records argv[1] orders, then asks for a snapshot, and again when it reads a line. */
#include <piste/snapshot.h>
#include <stdio.h>
#include <stdlib.h>

PISTE_EVENT(shop, order, (uint64_t, number))

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, number = 0;
	char line[16];

	do {
		for (uint64_t i = 0; i < count; i++)
			piste(shop, order, number++);
		piste_snapshot("enough");
		puts("done");
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin));
	return 0;
}
