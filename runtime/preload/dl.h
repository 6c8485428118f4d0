/* SPDX-License-Identifier: MIT */
/*
 * The inside of preload helper `dl`:
 *
 *   dl.c         dlopen, dlmopen, dlclose as the program calls them
 *   dl_search.c  where a library is that is named without a folder
 *   dl_objects.c what is loaded: the program, its libraries, and what came and went
 */
#ifndef PISTE_PRELOAD_DL_H
#define PISTE_PRELOAD_DL_H

#include "../object.h"

#include <limits.h>
#include <stdbool.h>

#define PISTE_PRIVATE __attribute__((visibility("hidden")))

/* Records what was loaded and unloaded since the last call; at the first one, nothing. */
PISTE_PRIVATE void dl_objects_update(void);

/* The object that a handle stands for. */
PISTE_PRIVATE struct piste_object dl_object_of(const struct link_map *map);

/* Where the dynamic linker would find `name` by the search path of the object that calls from `caller`, written to `path`. False: that
 * path has nothing to add, and the linker should look itself. */
PISTE_PRIVATE bool dl_search(const char *name, const void *caller, char path[PATH_MAX]);

#endif
