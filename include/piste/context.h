/* SPDX-License-Identifier: MIT */
/*
 * Contexts of the program's own: values that channels record beside each event, such as the tenant or the request that a thread works
 * for, without a field in every event.
 *
 *     static _Thread_local const char *tenant;
 *
 *     static void say_tenant(void *data, struct piste_value *value)
 *     {
 *             if (tenant)
 *                     *value = piste_value_string(tenant);
 *     }
 *
 *     piste_context_register("shop", "tenant", say_tenant, NULL);
 *
 * A channel records it when it was made with `--context app:shop:tenant`, also before the program registers the context. As long as
 * nobody did, and where the function sets no value, the trace says that there is none.
 *
 * Cost: the function is called for each event of such a channel, and for no other.
 */
#ifndef PISTE_CONTEXT_H
#define PISTE_CONTEXT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum piste_value_kind {
	PISTE_VALUE_NONE = 0,
	PISTE_VALUE_INT64 = 1,
	PISTE_VALUE_UINT64 = 2,
	PISTE_VALUE_DOUBLE = 3,
	PISTE_VALUE_STRING = 4,
};

struct piste_value {
	enum piste_value_kind kind;
	union {
		int64_t integer;
		uint64_t unsigned_integer;
		double number;
		const char *string; /* UTF-8; what exceeds 255 bytes is cut, and then ends in "...". */
	};
};

/* Sets `value`, which is none before, to that of the calling thread. It runs in the thread that records the event, before the event: in a
 * signal handler too if the program records events there. A string need only last until the thread records its next event. Events that the
 * function records have no values of the program. It must return: no exception and no longjmp() may leave it, and its thread must not be
 * cancelled in it (piste_context_unregister() would wait for ever). */
typedef void piste_context_function(void *data, struct piste_value *value);

/* Registers a context. Provider and name have 46 bytes together at most, and are copied. Thread-safe, not for signal handlers. Returns 0, or:
 *   EINVAL   an argument is NULL or empty, or the names are too long
 *   EEXIST   the context is registered
 *   ENOMEM   there is no memory */
int piste_context_register(const char *provider, const char *name, piste_context_function *function, void *data);

/* Unregisters a context, and waits until no thread is in its function, which may then be unloaded with its data. Thread-safe; neither for
 * signal handlers nor for the function itself. Returns 0, or ENOENT: it is not registered. */
int piste_context_unregister(const char *provider, const char *name);

static inline struct piste_value piste_value_int64(int64_t integer)
{
	struct piste_value value;

	value.kind = PISTE_VALUE_INT64;
	value.integer = integer;
	return value;
}

static inline struct piste_value piste_value_uint64(uint64_t integer)
{
	struct piste_value value;

	value.kind = PISTE_VALUE_UINT64;
	value.unsigned_integer = integer;
	return value;
}

static inline struct piste_value piste_value_double(double number)
{
	struct piste_value value;

	value.kind = PISTE_VALUE_DOUBLE;
	value.number = number;
	return value;
}

static inline struct piste_value piste_value_string(const char *string)
{
	struct piste_value value;

	value.kind = PISTE_VALUE_STRING;
	value.string = string;
	return value;
}

#ifdef __cplusplus
}
#endif

#endif
