/* SPDX-License-Identifier: MIT */
/*
 * The functions that a helper stands in front of: those that the program would have called without it. A helper lists them as
 * each(type, name, (parameters), (arguments)), writes PISTE_REAL_FUNCTIONS(list), and calls PISTE_REAL(name)(arguments).
 *
 * The program calls us before our constructors have run, so each pointer starts at a function first_<name>() of the helper, which finds
 * all of them at once. A later call costs the load of a pointer, and nothing is looked up in the middle of a run, where dlsym()'s lock
 * may have been lost to a fork.
 */
#ifndef PISTE_PRELOAD_REAL_H
#define PISTE_PRELOAD_REAL_H

#include <dlfcn.h>
#include <piste/atomic.h>

#define PISTE_REAL_FUNCTIONS(list)                                                                                     \
	list(PISTE_REAL_FIRST) struct real_functions {                                                                 \
		list(PISTE_REAL_MEMBER)                                                                                \
	};                                                                                                             \
	static struct real_functions real_functions = {list(PISTE_REAL_INITIAL)};

#define PISTE_REAL_FIRST(type, name, parameters, arguments)   static type first_##name parameters;
#define PISTE_REAL_MEMBER(type, name, parameters, arguments)  type(*name) parameters;
#define PISTE_REAL_INITIAL(type, name, parameters, arguments) .name = first_##name,

/* Relaxed: every value that a pointer ever has can be called. */
#define PISTE_REAL(name) piste_load_relaxed(&real_functions.name)

/* Fills a struct real_functions `found`; then makes it the one that is used, once all are known. */
#define PISTE_REAL_FIND(type, name, parameters, arguments)                                                             \
	found.name = __extension__(type(*) parameters) dlsym(RTLD_NEXT, #name);
#define PISTE_REAL_USE(type, name, parameters, arguments) piste_store_relaxed(&real_functions.name, found.name);

#endif
