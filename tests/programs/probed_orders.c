// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls a function with a structure, whose members are known, so many times. */

#include <stdlib.h>

struct customer {
	int number;
	const char *name;
};

struct order {
	char code[8];
	long price;
	struct customer *customer;
};

__attribute__((noinline)) static long sell(struct order *order, short count)
{
	__asm__ volatile("" : : "r"(order), "r"(count) : "memory");
	return order->price * count;
}

int main(int count, char **arguments)
{
	struct customer customer = {7, "ada"};
	struct order order = {"A1", 0, &customer};
	long total = 0;

	for (int turn = 0; turn < (count > 1 ? atoi(arguments[1]) : 1); turn++) {
		order.price = -turn;
		total += sell(&order, (short)(turn % 3));
	}
	return total > 0;
}
