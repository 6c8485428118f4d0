// SPDX-License-Identifier: MIT OR Apache-2.0
// Static probes with nothing to six arguments, one of them in two places, one with a variable of the file.
#include <stdio.h>
#include <sys/sdt.h>

int stock = 40;

static inline __attribute__((always_inline)) void twice(int number)
{
	STAP_PROBE1(shop, twice, number);
}

__attribute__((noinline)) static void six(signed char a, unsigned char b, short c, int d, long e, const char *f)
{
	STAP_PROBE6(shop, six, a, b, c, d, e, f);
}

int main(void)
{
	if (getchar() == EOF)
		return 1;
	for (int round = 0; round < 10; round++) {
		stock++;
		STAP_PROBE(shop, none);
		STAP_PROBE1(shop, one, round);
		STAP_PROBE2(shop, two, -round, 0x123456789aL);
		STAP_PROBE3(shop, three, round, (char)-round, (unsigned short)~round);
		six(-1, 200, -300, 4000 + round, 1L << 40, "tea");
		STAP_PROBE1(shop, variable, stock);
		twice(round);
	}
	twice(1000);
	return 0;
}
