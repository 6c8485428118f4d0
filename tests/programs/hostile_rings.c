/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hostile_rings SEED WRITES: records, and writes random bytes over the memory that it shares with pisted. It may well come to grief; an
 * alarm ends it when it hangs. Prints the number of bytes of the memory, before it starts.
 */
#define _GNU_SOURCE
#include <piste/abi/ring.h>
#include <piste/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

PISTE_EVENT(hostile, tick, (uint64_t, number), (const char *, text))
PISTE_EVENT(hostile, tock, (uint64_t, number), (uint64_t, again))

static uint64_t state;

static uint64_t random_number(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 20 ^ state << 44;
}

/* The shared memory with the channel's header in front, or NULL. */
static uint8_t *find_memory(size_t *bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint8_t *found = NULL;
	char line[1024];

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char rights[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && strcmp(rights, "rw-s") == 0 &&
		    strstr(line, "/memfd:") && *(uint32_t *)start == PISTE_CHANNEL_MAGIC) {
			found = (uint8_t *)start;
			*bytes = end - start;
		}
	}
	if (maps)
		fclose(maps);
	return found;
}

static void *record(void *unused)
{
	for (uint64_t number = 0;; number++) {
		piste(hostile, tick, number, "good or bad");
		piste(hostile, tock, number, number);
	}
	return unused;
}

/* Where words matter: the channel's header, the rings' headers, the marks; and anywhere. */
static size_t offset_of_a_write(const struct piste_channel_header *good, size_t memory_bytes)
{
	size_t ring = good->ring_offset_bytes + random_number() % 2 * good->ring_stride_bytes, offset;

	switch (random_number() % 6) {
	case 0:
		offset = random_number() % 1024;
		break;
	case 1:
		offset = ring + random_number() % 512;
		break;
	case 2:
		offset = ring + good->marks_offset_bytes - 1 - random_number() % (128 * good->subbuf_count);
		break;
	case 3:
		offset = ring + good->marks_offset_bytes + random_number() % 4096;
		break;
	case 4:
		offset = ring + PISTE_RING_DATA_OFFSET_BYTES + random_number() % 65536;
		break;
	default:
		offset = random_number() % memory_bytes;
	}
	return (offset % (memory_bytes - 8)) & ~(size_t)7;
}

int main(int argc, char **argv)
{
	unsigned long writes = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	struct piste_channel_header good;
	size_t memory_bytes = 0;
	uint8_t *memory;
	pthread_t recorder;

	state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	alarm(3);
	memory = find_memory(&memory_bytes);
	printf("%zu\n", memory_bytes);
	fflush(stdout);
	if (!memory)
		return 1;
	memcpy(&good, memory, sizeof(good));
	for (uint64_t number = 0; number < 1000; number++)
		piste(hostile, tick, number, "good");
	pthread_create(&recorder, NULL, record, NULL);
	for (unsigned long write = 0; write < writes; write++) {
		uint64_t value = random_number();

		/* Small numbers and near misses get further than random ones. */
		if (value % 4 == 0)
			value = value >> 50;
		else if (value % 4 == 1)
			memcpy(&value, memory + offset_of_a_write(&good, memory_bytes), sizeof(value));
		memcpy(memory + offset_of_a_write(&good, memory_bytes), &value, sizeof(value));
		usleep(10);
	}
	_exit(0);
}
