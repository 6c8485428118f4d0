/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* answers COUNT MS: one thread asks, another one answers; the fourth of ten answers comes after MS milliseconds. */
#include <piste/tracepoint.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

PISTE_EVENT(shop, asked, (uint64_t, id))
PISTE_EVENT(shop, answered, (uint64_t, id))

struct question {
	uint64_t id;
	unsigned milliseconds;
};

static void *answer(void *argument)
{
	const struct question *question = argument;

	if (question->id % 10 == 3)
		usleep(question->milliseconds * 1000);
	piste(shop, answered, question->id);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	struct question question = {0, argc > 2 ? (unsigned)atoi(argv[2]) : 0};
	pthread_t thread;

	for (; question.id < count; question.id++) {
		piste(shop, asked, question.id);
		if (pthread_create(&thread, NULL, answer, &question) != 0)
			return 1;
		pthread_join(thread, NULL);
	}
	return 0;
}
