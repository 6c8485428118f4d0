/* SPDX-License-Identifier: MIT */
/*
 * Attaching and detaching the memory of channels.
 *
 * A channel lies in one range of addresses: private memory with struct piste_channel and the views of its events, then the mapping of the
 * memfd, then that of the board with its bell. Detaching maps private zero memory over the range and gives the range up for good: a thread
 * that sleeps inside a record finds harmless memory when it wakes, whenever that is.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PISTE_CHANNEL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define LARGEST_PAGE_BYTES  65536u

static struct attached {
	struct piste_channel *channel; /* NULL: the slot is free. */
	uint32_t key;                  /* Kept here too, because fork wipes the channel's page. */
	uint32_t daemon;
	uint64_t mapped_bytes;
} attached[PISTE_CHANNEL_COUNT_MAX];

/* Slots that were ever used are before this one. */
static uint32_t slot_count;

/* Replaced channels, whose memory calls that have begun still use. */
#define LEAVING_COUNT_MAX 64
static struct attached leaving[LEAVING_COUNT_MAX];

static uint32_t log2_of(uint64_t power)
{
	return (uint32_t)__builtin_ctzll(power);
}

static bool is_power_of_two(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

static bool has_reserved_bits(const struct piste_channel_header *header)
{
	uint32_t bits = 0;

	for (size_t index = 0; index < sizeof(header->reserved_0) / sizeof(header->reserved_0[0]); index++)
		bits |= header->reserved_0[index];
	return bits != 0;
}

/* Whether every offset is the one that follows from the sizes, which are within their limits: so nothing here overflows. */
static bool has_offsets_of_sizes(const struct piste_channel_header *header)
{
	uint64_t ring_bytes = (uint64_t)header->subbuf_bytes * header->subbuf_count;
	uint64_t subbufs_bytes = (uint64_t)header->subbuf_count * sizeof(struct piste_subbuf);
	uint64_t marks_offset_bytes = PISTE_RING_DATA_OFFSET_BYTES + ring_bytes + subbufs_bytes;
	uint64_t stride_bytes = PISTE_RING_PAGE_BYTES;

	while (stride_bytes < marks_offset_bytes + ring_bytes / PISTE_UNIT_BYTES)
		stride_bytes *= 2;
	return header->marks_offset_bytes == marks_offset_bytes && header->ring_offset_bytes == sizeof(*header) &&
	       header->ring_stride_bytes == stride_bytes &&
	       header->total_bytes == sizeof(*header) + header->ring_count * stride_bytes;
}

/* Nothing that pisted wrote is taken on trust: what is not exactly this version's layout is refused, whether a later version means
 * something by it or somebody lies. */
static bool is_understood(const struct piste_channel_header *header, uint32_t key)
{
	return header->magic == PISTE_CHANNEL_MAGIC && header->version_major == PISTE_ABI_MAJOR &&
	       header->version_minor <= PISTE_ABI_MINOR && header->struct_bytes == sizeof(*header) &&
	       !has_reserved_bits(header) && key != 0 && header->key == key && header->ring_count >= 1 &&
	       header->ring_count <= PISTE_RING_COUNT_MAX && is_power_of_two(header->subbuf_bytes) &&
	       header->subbuf_bytes >= PISTE_SUBBUF_BYTES_MIN && header->subbuf_bytes <= PISTE_SUBBUF_BYTES_MAX &&
	       is_power_of_two(header->subbuf_count) && header->subbuf_count >= PISTE_SUBBUF_COUNT_MIN &&
	       header->subbuf_count <= PISTE_SUBBUF_COUNT_MAX && has_offsets_of_sizes(header) &&
	       header->loss_mode <= PISTE_LOSS_BLOCK && header->clock <= PISTE_CLOCK_TSC &&
	       (header->contexts & ~PISTE_CONTEXT_ALL) == 0 &&
	       piste_contexts_are_known(header->more, header->more_count);
}

/* The size of memory that nobody can make smaller under us, else 0: only a memfd has seals. */
static uint64_t sealed_bytes(int memory)
{
	int seals = fcntl(memory, F_GET_SEALS);
	struct stat status;

	if (seals < 0 || (seals & PISTE_CHANNEL_SEALS) != PISTE_CHANNEL_SEALS || fstat(memory, &status) != 0)
		return 0;
	return (uint64_t)status.st_size;
}

static bool read_header(int memory, struct piste_channel_header *header)
{
	uint64_t bytes = sealed_bytes(memory);

	return bytes != 0 && pread(memory, header, sizeof(*header), 0) == sizeof(*header) &&
	       header->total_bytes == bytes;
}

static bool is_bell(const struct piste_channel_files *files)
{
	return files->board < 0 || (sealed_bytes(files->board) == PISTE_BOARD_BYTES &&
	                            files->bell_index < PISTE_BOARD_BYTES / sizeof(uint32_t));
}

/* From struct piste_channel to the mapping of the memory, which any size of pages divides: room for the views of every ring index that a
 * thread can have. */
static uint64_t private_bytes(const struct piste_channel_header *header)
{
	uint64_t index_count = piste_thread_index_count();

	if (index_count < header->ring_count)
		index_count = header->ring_count;
	return (PISTE_VIEWS_OFFSET_BYTES + index_count * PISTE_VIEWS_STRIDE_BYTES + LARGEST_PAGE_BYTES - 1) /
	       LARGEST_PAGE_BYTES * LARGEST_PAGE_BYTES;
}

static struct piste_channel describe_channel(const struct piste_channel_header *header, uint64_t header_offset_bytes,
                                             uint32_t bell_index)
{
	struct piste_channel channel = {0};

	channel.ring_count = header->ring_count;
	channel.contexts = header->contexts;
	channel.lead_bytes = PISTE_RECORD_COMPACT_BYTES + (channel.contexts & PISTE_CONTEXT_VTID ? 4 : 0) +
	                     (channel.contexts & PISTE_CONTEXT_CPU_ID ? 2 : 0);
	channel.clock = header->clock;
	channel.subbuf_units = header->subbuf_bytes / PISTE_UNIT_BYTES;
	channel.subbuf_log2 = log2_of(channel.subbuf_units);
	channel.subbuf_count = header->subbuf_count;
	channel.ring_units_log2 = channel.subbuf_log2 + log2_of(header->subbuf_count);
	channel.marks_offset_bytes = header->marks_offset_bytes;
	channel.header_offset_bytes = header_offset_bytes;
	channel.ring_stride_bytes = header->ring_stride_bytes;
	channel.bell_offset_bytes = header_offset_bytes + header->total_bytes + bell_index * sizeof(uint32_t);
	channel.loss_mode = header->loss_mode;
	channel.block_timeout_us = header->block_timeout_us;
	channel.is_plain = header->contexts == 0 && header->more_count == 0 && header->clock == PISTE_CLOCK_TSC &&
	                   piste_thread_has_area();
	channel.key = header->key;
	channel.mapped_bytes = header_offset_bytes + header->total_bytes + PISTE_BOARD_BYTES;
	channel.more_count = header->more_count;
	for (uint32_t index = 0; index < header->more_count; index++)
		channel.more[index] = header->more[index];
	return channel;
}

static bool map_over(uint8_t *place, uint64_t bytes, int memory)
{
	return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) != MAP_FAILED;
}

/* Maps channel, memory and board side by side. */
static struct piste_channel *map_channel(const struct piste_channel_header *header,
                                         const struct piste_channel_files *files)
{
	uint64_t header_offset_bytes = private_bytes(header);
	uint64_t board_offset_bytes = header_offset_bytes + header->total_bytes;
	uint64_t bytes = board_offset_bytes + PISTE_BOARD_BYTES;
	uint8_t *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (range == MAP_FAILED)
		return NULL;
	if (((uint64_t)(uintptr_t)range & ~PISTE_SLOT_CHANNEL_MASK) != 0 ||
	    !map_over(range + header_offset_bytes, header->total_bytes, files->memory) ||
	    (files->board >= 0 && !map_over(range + board_offset_bytes, PISTE_BOARD_BYTES, files->board))) {
		munmap(range, bytes);
		return NULL;
	}
	/* Where the kernel has no MADV_WIPEONFORK the handler of fork does it, and a child made behind its back is on its own. */
	madvise(range, header_offset_bytes, MADV_WIPEONFORK);
	/* Gigabytes on a large machine, of which a debugger needs none. */
	madvise(range + header_offset_bytes, bytes - header_offset_bytes, MADV_DONTDUMP);
	*(struct piste_channel *)range =
	        describe_channel(header, header_offset_bytes, files->board >= 0 ? files->bell_index : 0);
	return (struct piste_channel *)range;
}

/* Puts zero pages in the place of a channel. In a program that locks its memory for the future (mlockall) the rings are locked, and the
 * kernel locks and fills whatever is put in their place: unlocked before, so that both need not fit under RLIMIT_MEMLOCK, and
 * after, which lets the pages go. At every instant some memory is there that can be written to. */
static void forget(struct attached *gone)
{
	munlock(gone->channel, gone->mapped_bytes);
	mmap(gone->channel, gone->mapped_bytes, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	munlock(gone->channel, gone->mapped_bytes);
	madvise(gone->channel, gone->mapped_bytes, MADV_DONTNEED);
	madvise(gone->channel, gone->mapped_bytes, MADV_DONTDUMP);
	gone->channel = NULL;
}

/* Keeps the memory of a replaced channel until it is gone; when many are kept, not that of the first. */
static void let_leave(const struct attached *replaced)
{
	uint32_t place = 0;

	while (place < LEAVING_COUNT_MAX - 1 && leaving[place].channel)
		place++;
	if (leaving[place].channel)
		forget(&leaving[place]);
	leaving[place] = *replaced;
}

uint32_t piste_channel_attach(uint32_t daemon, uint32_t key, uint32_t replaces, struct piste_channel_files files)
{
	struct piste_channel_header header;
	struct attached new;
	uint32_t slot;

	if (piste_channel_slot(daemon, key) < PISTE_CHANNEL_COUNT_MAX)
		return 0;
	slot = replaces ? piste_channel_slot(daemon, replaces) : PISTE_CHANNEL_COUNT_MAX;
	if (slot == PISTE_CHANNEL_COUNT_MAX)
		for (slot = 0; slot < slot_count && attached[slot].channel; slot++)
			;
	if (slot == PISTE_CHANNEL_COUNT_MAX)
		return PISTE_REFUSED_TOO_MANY_CHANNELS;
	if (!read_header(files.memory, &header) || !is_understood(&header, key) || !is_bell(&files))
		return PISTE_REFUSED_LAYOUT;
	new.channel = map_channel(&header, &files);
	if (!new.channel)
		return PISTE_REFUSED_MAPPING;
	new.key = key;
	new.daemon = daemon;
	new.mapped_bytes = new.channel->mapped_bytes;
	if (attached[slot].channel) {
		piste_modules_move(slot, attached[slot].channel, new.channel);
		let_leave(&attached[slot]);
	}
	attached[slot] = new;
	slot_count = slot < slot_count ? slot_count : slot + 1;
	return 0;
}

void piste_channel_detach(uint32_t daemon, uint32_t key)
{
	uint32_t slot = piste_channel_slot(daemon, key);

	if (slot < PISTE_CHANNEL_COUNT_MAX) {
		piste_modules_disable(slot);
		forget(&attached[slot]);
	}
	for (uint32_t place = 0; place < LEAVING_COUNT_MAX; place++)
		if (leaving[place].channel && leaving[place].daemon == daemon && leaving[place].key == key)
			forget(&leaving[place]);
}

void piste_channels_forget(void)
{
	piste_modules_disable_all();
	for (uint32_t slot = 0; slot < slot_count; slot++)
		if (attached[slot].channel)
			forget(&attached[slot]);
	for (uint32_t place = 0; place < LEAVING_COUNT_MAX; place++)
		if (leaving[place].channel)
			forget(&leaving[place]);
}

uint32_t piste_channel_slot(uint32_t daemon, uint32_t key)
{
	for (uint32_t slot = 0; slot < slot_count; slot++)
		if (attached[slot].channel && attached[slot].daemon == daemon && attached[slot].key == key)
			return slot;
	return PISTE_CHANNEL_COUNT_MAX;
}

struct piste_channel *piste_channel_at(uint32_t slot)
{
	return attached[slot].channel;
}

uint32_t piste_channel_keys(uint32_t daemon, uint32_t keys[PISTE_CHANNEL_COUNT_MAX])
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < slot_count; slot++)
		if (attached[slot].channel && attached[slot].daemon == daemon)
			keys[count++] = attached[slot].key;
	return count;
}
