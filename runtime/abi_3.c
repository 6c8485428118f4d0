/* SPDX-License-Identifier: MIT */
/*
 * What programs that were built for version 3 of the contract refer to. They start, and their events stay disabled (modules.c), so none of
 * this is called. It includes nothing: the names are others' today.
 */
#include <stdint.h>

extern __thread int32_t piste_thread_id __attribute__((tls_model("initial-exec")));
int32_t piste_thread_id_slow(void);
uint32_t piste_thread_cpu_slow(void);
int piste_make_room(void *channel, uint32_t index, uint64_t units);

__thread int32_t piste_thread_id __attribute__((tls_model("initial-exec")));

int32_t piste_thread_id_slow(void)
{
	return 0;
}

uint32_t piste_thread_cpu_slow(void)
{
	return 0;
}

int piste_make_room(void *channel, uint32_t index, uint64_t units)
{
	(void)channel;
	(void)index;
	(void)units;
	return 2; /* Inactive. */
}
