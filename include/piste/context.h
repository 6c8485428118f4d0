/* SPDX-License-Identifier: MIT */
/*
 * Contexts that a program defines itself: values that channels record with each event, such as the tenant or the request that a thread
 * is working for. The events need no field for them.
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
 * To record the context, create a channel with `--context app:shop:tenant`; the program can register the context later. Events that are
 * recorded before the context is registered, or for which the function sets no value, are shown without a value.
 *
 * Cost: the function is called for each event of such a channel, and for no other event.
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
		const char *string; /* UTF-8. A longer string is cut to 255 bytes and ends in "...". */
	};
};

/* Sets `value`, which is initially none, to the calling thread's value. The function runs in the thread that records the event, before the
 * event is recorded; if the program records events in a signal handler, it also runs there. A string must remain valid until the thread
 * records its next event. Events that the function itself records carry no contexts of the program. The function must return: it must not
 * throw an exception or call longjmp(), and its thread must not be cancelled while it runs (otherwise piste_context_unregister() waits
 * forever). */
typedef void piste_context_function(void *data, struct piste_value *value);

/* Registers a context. `provider` and `name` can have at most 46 bytes together, and are copied. Thread-safe; must not be called in signal
 * handlers. Returns 0, or:
 *   EINVAL   an argument is NULL or empty, or the names are too long
 *   EEXIST   the context is already registered
 *   ENOMEM   out of memory */
int piste_context_register(const char *provider, const char *name, piste_context_function *function, void *data);

/* Unregisters a context and waits until no thread is running its function. Afterwards the function and its data can be unloaded.
 * Thread-safe; must not be called in signal handlers or in the function itself. Returns 0, or:
 *   ENOENT   the context is not registered */
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
