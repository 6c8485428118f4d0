/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The memory of a channel, made as pisted makes it. Needs _GNU_SOURCE. */
#ifndef CHANNEL_MEMORY_H
#define CHANNEL_MEMORY_H

#include <fcntl.h>
#include <piste/abi/ring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PAGE  4096u

static inline struct piste_channel_header good_header(uint32_t key, uint32_t subbuf_bytes, uint32_t subbuf_count)
{
	struct piste_channel_header header;
	uint64_t ring_bytes = (uint64_t)subbuf_bytes * subbuf_count, stride = PAGE;

	memset(&header, 0, sizeof(header));
	header.magic = PISTE_CHANNEL_MAGIC;
	header.version_major = PISTE_ABI_MAJOR;
	header.version_minor = PISTE_ABI_MINOR;
	header.struct_bytes = sizeof(header);
	header.key = key;
	header.contexts = PISTE_CONTEXT_ALL;
	header.ring_count = 64;
	header.subbuf_bytes = subbuf_bytes;
	header.subbuf_count = subbuf_count;
	header.marks_offset_bytes =
	        PISTE_RING_DATA_OFFSET_BYTES + ring_bytes + sizeof(struct piste_subbuf) * subbuf_count;
	while (stride < header.marks_offset_bytes + ring_bytes / PISTE_UNIT_BYTES)
		stride *= 2;
	header.ring_offset_bytes = sizeof(header);
	header.ring_stride_bytes = stride;
	header.total_bytes = header.ring_offset_bytes + header.ring_count * stride;
	header.active_key = key;
	return header;
}

static inline int make_memory(const struct piste_channel_header *header, uint64_t bytes, int seals)
{
	int memory = memfd_create("channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(memory, (off_t)bytes) != 0 || pwrite(memory, header, sizeof(*header), 0) != sizeof(*header))
		perror("memory of a channel");
	fcntl(memory, F_ADD_SEALS, seals);
	return memory;
}

#endif
