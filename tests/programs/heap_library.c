/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that forgets FORGOTTEN bytes in a function by the name FORGETTER, which its function `forget` calls. */
#include <stdlib.h>

void forget(void);

static void *volatile kept;

static __attribute__((noinline)) void FORGETTER(void)
{
	kept = malloc(FORGOTTEN);
}

void forget(void)
{
	FORGETTER();
	/* So that the call above is no jump. */
	__asm__ volatile("");
}
