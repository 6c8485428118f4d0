// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls a function of a library COUNT times, once it was told a line. */

#include <stdio.h>
#include <stdlib.h>

int parcels_weigh(int parcels);

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1000;
	int weight = 0;
	char line[16];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int parcels = 0; parcels < count; parcels++)
		weight += parcels_weigh(parcels);
	printf("%d\n", weight);
	return 0;
}
