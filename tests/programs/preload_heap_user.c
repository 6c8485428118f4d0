/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Takes 100 blocks by calloc and 100 by realloc, and gives them back. Has no events of its own. */
#include <stdlib.h>

int main(void)
{
	for (int turn = 0; turn < 100; turn++) {
		unsigned char *block = calloc(1, 30203);

		for (int index = 0; index < 30203; index++)
			if (block[index] != 0)
				abort();
		block = realloc(block, 30307);
		block[30306] = 1;
		free(block);
	}
	return 0;
}
