/* SPDX-License-Identifier: MIT */
/*
 * What is loaded: the program and its libraries, and what came and went between two looks at them. A library brings others along, and stays
 * when somebody else has it too, so that only the list of loaded objects tells. The same as lttng_ust_statedump's events, which
 * say what was there when recording began, these let a reader know what code was at an address at a time.
 *
 * Only the namespace of the program is looked at: what dlmopen() loads into others has events of dl.c alone.
 */
#define _GNU_SOURCE
#include "dl.h"

#include <dlfcn.h>
#include <piste/tracepoint.h>
#include <sys/mman.h>

PISTE_EVENT(lttng_ust_lib, load, (void *, baddr), (uint64_t, memsz), (const char *, path), (uint8_t, has_build_id),
            (uint8_t, has_debug_link))
PISTE_EVENT(lttng_ust_lib, build_id, (void *, baddr), PISTE_SEQUENCE(uint8_t, build_id))
PISTE_EVENT(lttng_ust_lib, unload, (void *, baddr))

struct piste_object dl_object_of(const struct link_map *map)
{
	struct piste_object nothing = {map->l_addr, 0, NULL, 0};
	const ElfW(Ehdr) * file;
	Dl_info info;

	/* Works in every namespace, unlike dl_iterate_phdr(). The file's header is the start of its first segment. */
	if (!dladdr(map->l_ld, &info) || !info.dli_fbase)
		return nothing;
	file = info.dli_fbase;
	if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0)
		return nothing;
	return piste_object_describe(map->l_addr, (const ElfW(Phdr) *)((const uint8_t *)file + file->e_phoff),
	                             file->e_phnum);
}

/* ---- All objects, as of the last look ---- */

struct known {
	uintptr_t base;
	uint64_t bytes;
	bool seen; /* During a look. */
};

static struct known *known;
static size_t known_count, known_capacity;
static unsigned long long loads_seen, unloads_seen;

static struct known *find_known(const struct piste_object *object)
{
	for (size_t index = 0; index < known_count; index++)
		if (known[index].base == object->base && known[index].bytes == object->bytes)
			return &known[index];
	return NULL;
}

/* Pages of our own: the heap may be what is traced. Without memory the object is reported again at the next look. */
static void add_known(const struct piste_object *object)
{
	struct known added = {object->base, object->bytes, false};

	if (known_count == known_capacity) {
		size_t capacity = known_capacity ? 2 * known_capacity : 512;
		void *grown = known ? mremap(known, known_capacity * sizeof(*known), capacity * sizeof(*known),
		                             MREMAP_MAYMOVE)
		                    : mmap(NULL, capacity * sizeof(*known), PROT_READ | PROT_WRITE,
		                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (grown == MAP_FAILED)
			return;
		known = grown;
		known_capacity = capacity;
	}
	known[known_count++] = added;
}

static int mark_seen(struct dl_phdr_info *info, size_t info_bytes, void *unused)
{
	struct piste_object object = piste_object_describe(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
	struct known *entry = find_known(&object);

	(void)info_bytes;
	(void)unused;
	if (entry)
		entry->seen = true;
	return 0;
}

static void forget_unseen(void)
{
	size_t kept = 0;

	for (size_t index = 0; index < known_count; index++) {
		if (!known[index].seen) {
			piste(lttng_ust_lib, unload, (void *)known[index].base);
			continue;
		}
		known[kept] = known[index];
		known[kept++].seen = false;
	}
	known_count = kept;
}

static int add_new(struct dl_phdr_info *info, size_t info_bytes, void *is_first_look)
{
	struct piste_object object = piste_object_describe(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);

	(void)info_bytes;
	if (object.bytes == 0 || find_known(&object))
		return 0;
	add_known(&object);
	if (*(bool *)is_first_look)
		return 0;
	piste(lttng_ust_lib, load, (void *)object.base, object.bytes, info->dlpi_name, object.build_id != NULL, 0);
	if (object.build_id)
		piste(lttng_ust_lib, build_id, (void *)object.base, object.build_id, object.build_id_bytes);
	return 0;
}

/* Unloads first: what is loaded now may lie where something else was. */
static int look(struct dl_phdr_info *info, size_t info_bytes, void *unused)
{
	bool is_first_look = known_count == 0;

	(void)info_bytes;
	(void)unused;
	if (info->dlpi_adds == loads_seen && info->dlpi_subs == unloads_seen)
		return 1;
	loads_seen = info->dlpi_adds;
	unloads_seen = info->dlpi_subs;
	dl_iterate_phdr(mark_seen, NULL);
	forget_unseen();
	dl_iterate_phdr(add_new, &is_first_look);
	return 1;
}

/* The linker calls back with its list of objects locked, by a lock that its holder may take again. So the whole look happens within the
 * first callback, and the linker's lock is ours too: none that a fork could leave locked beside it. */
void dl_objects_update(void)
{
	dl_iterate_phdr(look, NULL);
}
