/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* call_costs: spends most of its time in functions that others call, compiled with -finstrument-functions; a part of it deep below each other. */
#define NEVER_INLINE __attribute__((noinline))

/* Takes some microseconds each time. */
static NEVER_INLINE void leaf(int turns)
{
	for (volatile int turn = 0; turn < turns * 1000; turn++)
		;
}

static NEVER_INLINE void branch(void)
{
	leaf(20);
	leaf(10);
}

static NEVER_INLINE void deeper(int depth)
{
	if (depth > 1)
		deeper(depth - 1);
	else
		leaf(60);
}

static NEVER_INLINE void alone(void)
{
	leaf(15);
}

int main(void)
{
	for (int round = 0; round < 20; round++) {
		branch();
		branch();
		deeper(12);
		alone();
	}
	return 0;
}
