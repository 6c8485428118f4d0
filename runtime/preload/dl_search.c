/* SPDX-License-Identifier: MIT */
/*
 * Where a library is that the program names without a folder. The dynamic linker looks by the search path of the object that calls
 * dlopen(): its DT_RPATH or DT_RUNPATH, beside LD_LIBRARY_PATH and the system's. It takes us for the caller, so what the real
 * caller's path has more than ours is searched here.
 *
 * Not done: the variants of a library for newer processors (folders glibc-hwcaps), in such a path.
 */
#define _GNU_SOURCE
#include "dl.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* On the stack, where the linker has its own working space; a usual one has a few hundred bytes. */
#define SEARCH_PATH_BYTES_MAX 65536

static size_t search_path_bytes(struct link_map *map)
{
	Dl_serinfo size;

	return dlinfo(map, RTLD_DI_SERINFOSIZE, &size) == 0 && size.dls_size <= SEARCH_PATH_BYTES_MAX ? size.dls_size
	                                                                                              : 0;
}

static bool read_search_path(struct link_map *map, Dl_serinfo *path)
{
	return dlinfo(map, RTLD_DI_SERINFOSIZE, path) == 0 && dlinfo(map, RTLD_DI_SERINFO, path) == 0;
}

static bool has_folder(const Dl_serinfo *path, const char *folder)
{
	for (unsigned int index = 0; index < path->dls_cnt; index++)
		if (strcmp(path->dls_serpath[index].dls_name, folder) == 0)
			return true;
	return false;
}

/* How many folders of the caller's path to look into: up to the last one that is not in ours. The rest are the system's, which the linker
 * knows better (ld.so.cache). */
static unsigned int folders_to_search(const Dl_serinfo *callers, const Dl_serinfo *ours)
{
	unsigned int count = callers->dls_cnt;

	while (count > 0 && has_folder(ours, callers->dls_serpath[count - 1].dls_name))
		count--;
	return count;
}

/* The linker passes over files for other machines. */
static bool is_for_this_machine(const char *path, const ElfW(Ehdr) * ours)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ElfW(Ehdr) header;
	ssize_t bytes;

	if (file < 0)
		return false;
	bytes = read(file, &header, sizeof(header));
	close(file);
	return bytes == sizeof(header) && memcmp(header.e_ident, ours->e_ident, EI_VERSION) == 0 &&
	       header.e_machine == ours->e_machine;
}

bool dl_search(const char *name, const void *caller, char path[PATH_MAX])
{
	static const char in_us;
	struct link_map *callers_map, *our_map;
	Dl_serinfo *callers, *ours;
	size_t callers_bytes, our_bytes;
	Dl_info info, our_info;
	unsigned int count;

	if (!name || !*name || strchr(name, '/') || !dladdr1(caller, &info, (void **)&callers_map, RTLD_DL_LINKMAP) ||
	    !dladdr1(&in_us, &our_info, (void **)&our_map, RTLD_DL_LINKMAP))
		return false;
	callers_bytes = search_path_bytes(callers_map);
	our_bytes = search_path_bytes(our_map);
	if (!callers_bytes || !our_bytes)
		return false;
	callers = __builtin_alloca(callers_bytes);
	ours = __builtin_alloca(our_bytes);
	if (!read_search_path(callers_map, callers) || !read_search_path(our_map, ours))
		return false;
	count = folders_to_search(callers, ours);
	for (unsigned int index = 0; index < count; index++)
		if (snprintf(path, PATH_MAX, "%s/%s", callers->dls_serpath[index].dls_name, name) < PATH_MAX &&
		    is_for_this_machine(path, our_info.dli_fbase))
			return true;
	return false;
}
