// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls a library's function and the C library's malloc, seven times each.
#include <stdio.h>
#include <stdlib.h>

int weigh(int parcels);

int main(void)
{
	if (getchar() == EOF)
		return 1;
	for (int parcels = 0; parcels < 7; parcels++) {
		void *volatile block = malloc(12345);
		weigh(parcels);
		free(block);
	}
	return 0;
}
