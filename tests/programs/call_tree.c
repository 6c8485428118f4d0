/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* call_tree: calls functions as often as their comments say, compiled with -finstrument-functions; on two threads, and out of one with
 * longjmp. */
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>

static jmp_buf out;

/* Takes as long as any clock can tell. */
static __attribute__((noinline)) void leaf(void)
{
	for (volatile int turn = 0; turn < 1000; turn++)
		;
}

/* Three times, each with two leaves. */
static __attribute__((noinline)) void branch(void)
{
	leaf();
	leaf();
}

/* Itself below itself, four deep, with a leaf at the end. */
static __attribute__((noinline)) void deeper(int depth)
{
	if (depth > 1)
		deeper(depth - 1);
	else
		leaf();
}

/* Never comes back. */
static __attribute__((noinline)) void jumps(void)
{
	longjmp(out, 1);
}

static __attribute__((noinline)) void catches(void)
{
	if (setjmp(out) == 0)
		jumps();
	leaf();
}

static __attribute__((noinline)) void *beside(void *nothing)
{
	branch();
	return nothing;
}

int main(void)
{
	pthread_t thread;

	for (int turn = 0; turn < 3; turn++)
		branch();
	deeper(4);
	catches();
	if (pthread_create(&thread, NULL, beside, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
