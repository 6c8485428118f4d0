// SPDX-License-Identifier: MIT OR Apache-2.0
/* A library with a function that is probed, for parcels.c. */

int parcels_weigh(int parcels);

int parcels_weigh(int parcels)
{
	__asm__ volatile("" : : "r"(parcels) : "memory");
	return 3 * parcels;
}
