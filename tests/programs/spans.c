// SPDX-License-Identifier: MIT OR Apache-2.0
/* spans ROUNDS: two threads do so many rounds of work, with steps within, of which some begin again within themselves. */

#include <piste/tracepoint.h>

#include <pthread.h>
#include <stdlib.h>

PISTE_EVENT(work, round_begin, (int32_t, number))
PISTE_EVENT(work, round_end, (int32_t, number))
PISTE_EVENT(step, begin, (int32_t, depth))
PISTE_EVENT(step, end, (int32_t, depth))

static int rounds;

static void step(int depth)
{
	piste(step, begin, depth);
	if (depth < 3)
		step(depth + 1);
	piste(step, end, depth);
}

static void *work(void *nothing)
{
	for (int number = 0; number < rounds; number++) {
		piste(work, round_begin, number);
		step(1);
		piste(work, round_end, number);
	}
	return nothing;
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 10;
	pthread_t other;
	if (pthread_create(&other, NULL, work, NULL))
		return 1;
	work(NULL);
	pthread_join(other, NULL);
	/* This one has no end. */
	piste(work, round_begin, -1);
	return 0;
}
