/* SPDX-License-Identifier: MIT */
/*
 * Preload helper `dl`: libraries that the program loads and unloads. Each dlopen(), dlmopen() and dlclose() is an event, and so is every
 * object that came or went by it (dl_objects.c).
 *
 * The dynamic linker resolves a name for the object that calls it, which is now us. Libraries that are named without a folder are looked
 * for as the program's call would have been (dl_search.c). What stays different is in docs/reference/preload.md.
 */
#define _GNU_SOURCE
#include "dl.h"
#include "real.h"

#include <piste/tracepoint.h>
#include <unistd.h>

PISTE_EVENT(lttng_ust_dl, dlopen, (void *, baddr), (uint64_t, memsz), (int, flags), (const char *, path),
            (uint8_t, has_build_id), (uint8_t, has_debug_link))
PISTE_EVENT(lttng_ust_dl, dlmopen, (void *, baddr), (uint64_t, memsz), (int64_t, nsid), (int, flags),
            (const char *, path), (uint8_t, has_build_id), (uint8_t, has_debug_link))
PISTE_EVENT(lttng_ust_dl, build_id, (void *, baddr), PISTE_SEQUENCE(uint8_t, build_id))
PISTE_EVENT(lttng_ust_dl, dlclose, (void *, baddr))

/* clang-format off */
#define FUNCTIONS(each)                                                                                                \
	each(void *, dlopen, (const char *path, int flags), (path, flags))                                             \
	each(void *, dlmopen, (Lmid_t nsid, const char *path, int flags), (nsid, path, flags))                         \
	each(int, dlclose, (void *handle), (handle))
/* clang-format on */

PISTE_REAL_FUNCTIONS(FUNCTIONS)

static void find_real_functions(void)
{
	struct real_functions found;

	FUNCTIONS(PISTE_REAL_FIND)
	FUNCTIONS(PISTE_REAL_USE)
}

#define FIRST(type, name, parameters, arguments)                                                                       \
	static type first_##name parameters                                                                            \
	{                                                                                                              \
		find_real_functions();                                                                                 \
		return PISTE_REAL(name) arguments;                                                                     \
	}
FUNCTIONS(FIRST)

static __attribute__((constructor(101))) void begin(void)
{
	find_real_functions();
	dl_objects_update();
}

static struct link_map *map_of(void *handle)
{
	struct link_map *map;

	return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map : NULL;
}

/* The program itself has no name in the linker's list. `text` is a buffer. */
static const char *path_of(const struct link_map *map, char text[PATH_MAX])
{
	ssize_t length;

	if (map->l_name[0])
		return map->l_name;
	length = readlink("/proc/self/exe", text, PATH_MAX - 1);
	text[length > 0 ? length : 0] = 0;
	return text;
}

static void record_build_id(const struct piste_object *object)
{
	if (object->build_id)
		piste(lttng_ust_dl, build_id, (void *)object->base, object->build_id, object->build_id_bytes);
}

void *dlopen(const char *name, int flags)
{
	char path[PATH_MAX];
	void *handle = NULL;

	/* What other ways than this one have changed is told first. */
	dl_objects_update();
	if (dl_search(name, __builtin_return_address(0), path)) {
		/* A loaded library of that name comes before any file. */
		handle = PISTE_REAL(dlopen)(name, flags | RTLD_NOLOAD);
		name = path;
	}
	if (!handle)
		handle = PISTE_REAL(dlopen)(name, flags);
	dl_objects_update();
	if (handle && (piste_enabled(lttng_ust_dl, dlopen) || piste_enabled(lttng_ust_dl, build_id))) {
		const struct link_map *map = map_of(handle);
		struct piste_object object = dl_object_of(map);

		piste(lttng_ust_dl, dlopen, (void *)object.base, object.bytes, flags, path_of(map, path),
		      object.build_id != NULL, 0);
		record_build_id(&object);
	}
	return handle;
}

void *dlmopen(Lmid_t nsid, const char *name, int flags)
{
	char path[PATH_MAX];
	void *handle;

	dl_objects_update();
	/* In a new namespace nothing is loaded yet. */
	if (nsid == LM_ID_NEWLM && dl_search(name, __builtin_return_address(0), path))
		name = path;
	handle = PISTE_REAL(dlmopen)(nsid, name, flags);
	dl_objects_update();
	if (handle && (piste_enabled(lttng_ust_dl, dlmopen) || piste_enabled(lttng_ust_dl, build_id))) {
		const struct link_map *map = map_of(handle);
		struct piste_object object = dl_object_of(map);

		dlinfo(handle, RTLD_DI_LMID, &nsid);
		piste(lttng_ust_dl, dlmopen, (void *)object.base, object.bytes, nsid, flags, path_of(map, path),
		      object.build_id != NULL, 0);
		record_build_id(&object);
	}
	return handle;
}

int dlclose(void *handle)
{
	int status;

	dl_objects_update();
	if (piste_enabled(lttng_ust_dl, dlclose)) {
		struct piste_object object = dl_object_of(map_of(handle));

		piste(lttng_ust_dl, dlclose, (void *)object.base);
	}
	status = PISTE_REAL(dlclose)(handle);
	dl_objects_update();
	return status;
}
