/* SPDX-License-Identifier: MIT */
/*
 * One loaded object, a program or a library, from its program headers in memory: where it lies, and its build id. For the state dump
 * (statedump.c) and for the helper that watches libraries (preload/dl_objects.c), which do not link each other.
 */
#ifndef PISTE_OBJECT_H
#define PISTE_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct piste_object {
	uintptr_t base;
	uint64_t bytes; /* 0: nothing is loaded. */
	const uint8_t *build_id;
	size_t build_id_bytes;
};

static inline void piste_object_find_build_id(struct piste_object *object, const uint8_t *notes, size_t notes_bytes)
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

/* `bias` is added to the addresses in the headers. */
static inline struct piste_object piste_object_describe(uintptr_t bias, const ElfW(Phdr) * headers, size_t header_count)
{
	uintptr_t start = UINTPTR_MAX, end = 0;
	struct piste_object object = {0, 0, NULL, 0};

	for (size_t index = 0; index < header_count; index++) {
		const ElfW(Phdr) *header = &headers[index];
		uintptr_t segment = bias + header->p_vaddr;

		if (header->p_type == PT_LOAD) {
			start = segment < start ? segment : start;
			end = segment + header->p_memsz > end ? segment + header->p_memsz : end;
		}
		if (header->p_type == PT_NOTE && !object.build_id)
			piste_object_find_build_id(&object, (const uint8_t *)segment, header->p_memsz);
	}
	if (start < end) {
		object.base = start & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
		object.bytes = end - object.base;
	}
	return object;
}

#endif
