// SPDX-License-Identifier: MIT OR Apache-2.0
// A static probe whose semaphore the program looks at; prints how often it found somebody listening.
#include <stdio.h>

#define _SDT_HAS_SEMAPHORES 1
unsigned short shop_asked_semaphore __attribute__((section(".probes")));
#include <sys/sdt.h>

int main(void)
{
	int listened = 0;
	if (getchar() == EOF)
		return 1;
	for (int round = 0; round < 10; round++)
		if (__atomic_load_n(&shop_asked_semaphore, __ATOMIC_RELAXED)) {
			listened++;
			STAP_PROBE1(shop, asked, round);
		}
	printf("%d\n", listened);
	return 0;
}
