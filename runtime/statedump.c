/* SPDX-License-Identifier: MIT */
/*
 * Where the program and its libraries lie in memory, as events of one channel, so that addresses in the trace can be resolved later. Names
 * and fields are those that existing readers of user-space traces look for.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <piste/tracepoint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

PISTE_EVENT(lttng_ust_statedump, start)
PISTE_EVENT(lttng_ust_statedump, procname, (const char *, procname))
PISTE_EVENT(lttng_ust_statedump, bin_info, (void *, baddr), (uint64_t, memsz), (const char *, path), (uint8_t, is_pic),
            (uint8_t, has_build_id), (uint8_t, has_debug_link))
PISTE_EVENT(lttng_ust_statedump, build_id, (void *, baddr), PISTE_SEQUENCE(uint8_t, build_id))
PISTE_EVENT(lttng_ust_statedump, end)

/* Records an event in one channel only, whatever other channels have it too. */
#define RECORD_IN(slot_index, event, ...)                                                                              \
	do {                                                                                                           \
		struct piste_event only = PISTE_EVENT__lttng_ust_statedump__##event;                                   \
		only.enabled &= 1u << (slot_index);                                                                    \
		if (only.enabled)                                                                                      \
			PISTE_RECORD__lttng_ust_statedump__##event(&only __VA_OPT__(, ) __VA_ARGS__);                  \
	} while (0)

struct object {
	uintptr_t base;
	uint64_t memory_bytes;
	const uint8_t *build_id;
	size_t build_id_bytes;
};

static void find_build_id(const uint8_t *notes, size_t notes_bytes, struct object *object)
{
	while (notes_bytes >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)notes;
		size_t name_bytes = (note->n_namesz + 3u) & ~3u, text_bytes = (note->n_descsz + 3u) & ~3u;
		size_t note_bytes = sizeof(*note) + name_bytes + text_bytes;

		if (note_bytes > notes_bytes)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0) {
			object->build_id = (const uint8_t *)(note + 1) + name_bytes;
			object->build_id_bytes = note->n_descsz;
			return;
		}
		notes += note_bytes;
		notes_bytes -= note_bytes;
	}
}

static int dump_object(struct dl_phdr_info *info, size_t info_bytes, void *slot_pointer)
{
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	uint32_t slot = *(uint32_t *)slot_pointer;
	struct object object = {UINTPTR_MAX, 0, NULL, 0};
	char program[PATH_MAX];
	uintptr_t end = 0;

	(void)info_bytes;
	for (int index = 0; index < info->dlpi_phnum; index++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[index];
		uintptr_t start = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_LOAD) {
			if (start < object.base)
				object.base = start;
			if (start + header->p_memsz > end)
				end = start + header->p_memsz;
		}
		if (header->p_type == PT_NOTE && !object.build_id)
			find_build_id((const uint8_t *)start, header->p_memsz, &object);
	}
	if (object.base == UINTPTR_MAX)
		return 0;
	object.base &= ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
	object.memory_bytes = end - object.base;
	if (path[0] == 0) {
		ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

		program[length > 0 ? length : 0] = 0;
		path = program;
	}
	RECORD_IN(slot, bin_info, (void *)object.base, object.memory_bytes, path, info->dlpi_addr != 0,
	          object.build_id != NULL, 0);
	if (object.build_id)
		RECORD_IN(slot, build_id, (void *)object.base, object.build_id, object.build_id_bytes);
	return 0;
}

void piste_statedump(uint32_t slot)
{
	RECORD_IN(slot, start);
	RECORD_IN(slot, procname, program_invocation_short_name);
	dl_iterate_phdr(dump_object, &slot);
	RECORD_IN(slot, end);
}
