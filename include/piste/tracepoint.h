/* SPDX-License-Identifier: MIT */
/*
 * Piste's C and C++ interface for programs: declare an event once, record it anywhere.
 *
 *     #include <piste/tracepoint.h>
 *
 *     PISTE_EVENT(shop, order, (int32_t, id), (const char *, customer), (double, price))
 *
 *     piste(shop, order, 42, "ada", 9.5);
 *
 *     cc app.c $(pkg-config --cflags --libs piste)
 *
 * A declaration can be in a header that many files and libraries include: an event that is declared several times is still one event.
 * In C++, declare events outside namespaces and classes.
 *
 * Cost: one load and one predicted branch while the event is not being recorded, otherwise about as much as reading the clock. There is no
 * system call, no lock and no allocation. Recording is safe in signal handlers, in any thread, after fork, and without a daemon.
 *
 * Requires C11 with GNU atomics (gcc, clang) or C++17. For the fields, see fields.h.
 */
#ifndef PISTE_TRACEPOINT_H
#define PISTE_TRACEPOINT_H

#include <stdbool.h>

#include "event.h"
#include "fields.h"
#include "map.h"
#include "ring.h"
#include "steps.h"

/* PISTE_EVENT(provider, event, fields...) declares an event with 0 to 40 fields and the level DEBUG_LINE. */
#define PISTE_EVENT(...) PISTE_JOIN(PISTE_EVENT_, PISTE_SHAPE(__VA_ARGS__))(DEBUG_LINE, __VA_ARGS__)

/* PISTE_EVENT_LEVEL(provider, event, LEVEL, fields...) declares an event with another level. LEVEL is one of EMERG ALERT CRIT ERR WARNING
 * NOTICE INFO DEBUG_SYSTEM DEBUG_PROGRAM DEBUG_PROCESS DEBUG_MODULE DEBUG_UNIT DEBUG_FUNCTION DEBUG_LINE DEBUG. */
#define PISTE_EVENT_LEVEL(provider, event, ...)                                                                        \
	PISTE_JOIN(PISTE_EVENT_LEVEL_, PISTE_SHAPE(__VA_ARGS__))(provider, event, __VA_ARGS__)

/* piste(provider, event, arguments...) records the event if it is enabled. Otherwise the arguments are not evaluated. */
#define piste(...) PISTE_JOIN(PISTE_RECORD_, PISTE_SHAPE(__VA_ARGS__))(__VA_ARGS__)

/* Whether the event is being recorded now. Use it to skip the computation of expensive arguments. */
#define piste_enabled(provider, event)                                                                                 \
	piste_unlikely(piste_load_relaxed(&PISTE_EVENT__##provider##__##event.enabled) != 0)

/* piste_printf("format", ...) records a formatted string as the event piste:printf. piste_log(LEVEL, "format", ...) records it as the
 * event piste:log_LEVEL with that level. The format and its arguments are as for printf. */
#define piste_printf(...)                                                                                              \
	do {                                                                                                           \
		if (piste_enabled(piste, printf))                                                                      \
			piste_print(&PISTE_EVENT__piste__printf, __VA_ARGS__);                                         \
	} while (0)
#define piste_log(level, ...)                                                                                          \
	do {                                                                                                           \
		if (piste_enabled(piste, log_##level))                                                                 \
			piste_print(&PISTE_EVENT__piste__log_##level, __VA_ARGS__);                                    \
	} while (0)

/* ---- Implementation ---- */

#ifdef __cplusplus
extern "C" {
#endif

/* One for each program and library: the linker merges the definitions of its files. */
__attribute__((weak, visibility("hidden"))) struct piste_module piste_this_module = {{0, 0}, 0, 0, 0, 0, 0};

extern struct piste_event __start_piste_events[] __attribute__((weak, visibility("hidden")));
extern struct piste_event __stop_piste_events[] __attribute__((weak, visibility("hidden")));

#ifdef __cplusplus
}
#endif

/* Runs before the constructors of the program, so that the events of these constructors are recorded. The first file of a module whose
 * constructor runs registers the module. */
static __attribute__((constructor(101))) void piste_module_begin(void)
{
	if (piste_this_module.registered)
		return;
	piste_this_module.registered = 1;
	piste_this_module.events = __start_piste_events;
	piste_this_module.events_end = __stop_piste_events;
	piste_module_register(&piste_this_module, PISTE_ABI_MAJOR);
}

static __attribute__((destructor(101))) void piste_module_end(void)
{
	if (!piste_this_module.registered)
		return;
	piste_this_module.registered = 0;
	piste_module_unregister(&piste_this_module);
}

#define PISTE_EVENT_one(...) PISTE_ASSERT(0, "piste: write PISTE_EVENT(provider, event, fields...)")
#define PISTE_EVENT_two(level, provider, event)                                                                        \
	PISTE_EVENT_OBJECTS(level, provider, event, 0, , )                                                             \
	PISTE_EVENT_FUNCTIONS(provider, event, , , , +0, (void)piste_cursor;)
#define PISTE_EVENT_more(level, provider, event, ...)                                                                  \
	PISTE_ASSERT(PISTE_COUNT(__VA_ARGS__) <= PISTE_FIELD_COUNT_MAX,                                                \
	             "piste: event " #provider ":" #event " has more than 40 fields")                                  \
	PISTE_FIELDS(PISTE_CHECK, provider##__##event, __VA_ARGS__)                                                    \
	PISTE_EVENT_OBJECTS(level, provider, event, PISTE_COUNT(__VA_ARGS__),                                          \
	                    PISTE_FIELDS(PISTE_NAME_LABELS, provider##__##event, __VA_ARGS__),                         \
	                    PISTE_FIELDS(PISTE_DESCRIBE, provider##__##event, __VA_ARGS__))                            \
	PISTE_EVENT_FUNCTIONS(provider, event, PISTE_FIELDS(PISTE_PARAMETER, ~, __VA_ARGS__),                          \
	                      PISTE_FIELDS(PISTE_ARGUMENT, ~, __VA_ARGS__),                                            \
	                      PISTE_FIELDS(PISTE_MEASURE, ~, __VA_ARGS__), PISTE_FIELDS(PISTE_ADD, ~, __VA_ARGS__),    \
	                      PISTE_FIELDS(PISTE_PUT, ~, __VA_ARGS__))

#define PISTE_EVENT_LEVEL_one(provider, event, level)       PISTE_EVENT_two(level, provider, event)
#define PISTE_EVENT_LEVEL_two(provider, event, level, ...)  PISTE_EVENT_more(level, provider, event, __VA_ARGS__)
#define PISTE_EVENT_LEVEL_more(provider, event, level, ...) PISTE_EVENT_more(level, provider, event, __VA_ARGS__)

/* These objects are static, and are kept only in the files that use the event: see "Event states" in ARCHITECTURE.md. */
#define PISTE_EVENT_OBJECTS(level, provider, event, field_count, labels, fields)                                       \
	PISTE_ASSERT(sizeof(#provider) - 1 <= PISTE_NAME_BYTES_MAX && sizeof(#event) - 1 <= PISTE_NAME_BYTES_MAX,      \
	             "piste: the provider and the name of an event have at most 127 characters each")                  \
	labels static const struct piste_field piste_fields__##provider##__##event[]                                   \
	        __attribute__((unused)) = {fields{NULL, NULL, 0, 0, 0, 0, 0}};                                         \
	static const struct piste_event_info piste_info__##provider##__##event __attribute__((unused)) = {             \
	        #provider, #event, piste_fields__##provider##__##event, field_count, PISTE_LEVEL_##level, {0}};        \
	static struct piste_event PISTE_EVENT__##provider##__##event                                                   \
	        __attribute__((section("piste_events"), unused)) = {                                                   \
	                0, PISTE_EVENT_MAGIC, 0, &piste_info__##provider##__##event, 0, NULL, NULL, NULL,              \
	                0, {0, 0, NULL, {0}}};

/* PISTE_RECORD__ is the fast path. It is not inlined, so that the code at each call stays small; the values of the fields are passed in
 * registers. PISTE_RECORD_ANYWHERE__ is the general path: it records the event in every channel, whatever the settings of the channels. An
 * event whose size is known only when it is recorded always takes the general path. */
#define PISTE_EVENT_FUNCTIONS(provider, event, parameters, arguments, measure, add, put)                               \
	static __attribute__((noinline, unused)) void PISTE_RECORD_ANYWHERE__##provider##__##event(                    \
	        parameters struct piste_event *piste_event, const void *piste_ip)                                      \
	{                                                                                                              \
		uint64_t piste_nowrite_bytes = 0;                                                                      \
		struct piste_record piste_record;                                                                      \
		struct piste_place piste_place;                                                                        \
		uint8_t *piste_cursor;                                                                                 \
		measure piste_place = piste_record_begin(&piste_record, piste_event, piste_ip, (uint64_t)0 add,        \
		                                         piste_nowrite_bytes);                                         \
		piste_cursor = piste_place.cursor;                                                                     \
		while (piste_cursor) {                                                                                 \
			const bool piste_for_filters =                                                                 \
			        piste_place.marks == 0 && piste_cursor == piste_record.filtered;                       \
			(void)piste_for_filters;                                                                       \
			put if (piste_likely(piste_place.marks != 0))                                                  \
			{                                                                                              \
				piste_place_commit(piste_place);                                                       \
				return;                                                                                \
			}                                                                                              \
			if (piste_for_filters && piste_record_is_rejected(&piste_record))                              \
				return;                                                                                \
			piste_cursor = piste_record_next(&piste_record);                                               \
		}                                                                                                      \
	}                                                                                                              \
	static __attribute__((noinline, unused)) void PISTE_RECORD__##provider##__##event(                             \
	        parameters uint64_t piste_views)                                                                       \
	{                                                                                                              \
		const bool piste_for_filters = false;                                                                  \
		uint64_t piste_nowrite_bytes = 0;                                                                      \
		(void)piste_for_filters, (void)piste_nowrite_bytes;                                                    \
		PISTE_END_AFTER(PISTE_STEP_CALLBACK);                                                                  \
		measure if (piste_is_fast((uint64_t)0 add))                                                            \
		{                                                                                                      \
			struct piste_space piste_space =                                                               \
			        piste_reserve(&piste_this_module.offsets, piste_views, (uint64_t)0 add);               \
			uint8_t *piste_cursor = piste_space.cursor;                                                    \
			if (piste_likely(piste_cursor)) {                                                              \
				put PISTE_END_AFTER(PISTE_STEP_WRITE);                                                 \
				piste_commit(piste_space);                                                             \
				return;                                                                                \
			}                                                                                              \
			PISTE_RETURN_IF_ENDED(piste_space)                                                             \
		}                                                                                                      \
		PISTE_RECORD_ANYWHERE__##provider##__##event(arguments &PISTE_EVENT__##provider##__##event,            \
		                                             __builtin_return_address(0));                             \
		PISTE_WHERE_ENDED(return;)                                                                             \
	}

#define PISTE_RECORD_one(...) PISTE_ASSERT(0, "piste: write piste(provider, event, arguments...)")
#define PISTE_RECORD_two(provider, event)                                                                              \
	do {                                                                                                           \
		const uint64_t piste_views__##provider##__##event =                                                    \
		        piste_load_relaxed(&PISTE_EVENT__##provider##__##event.enabled);                               \
		if (piste_unlikely(piste_views__##provider##__##event != 0))                                           \
			PISTE_RECORD__##provider##__##event(piste_views__##provider##__##event);                       \
	} while (0)
#define PISTE_RECORD_more(provider, event, ...)                                                                        \
	do {                                                                                                           \
		const uint64_t piste_views__##provider##__##event =                                                    \
		        piste_load_relaxed(&PISTE_EVENT__##provider##__##event.enabled);                               \
		if (piste_unlikely(piste_views__##provider##__##event != 0))                                           \
			PISTE_RECORD__##provider##__##event(__VA_ARGS__, piste_views__##provider##__##event);          \
	} while (0)

/* Formatted events have no recording functions of their own; piste_print() records them. */
#define PISTE_EVENT_FORMATTED(event, level)                                                                            \
	PISTE_EVENT_OBJECTS(level, piste, event, 1, , PISTE_DESCRIBE_scalar_(~, const char *, text))
PISTE_EVENT_FORMATTED(printf, DEBUG_LINE)
PISTE_EVENT_FORMATTED(log_EMERG, EMERG)
PISTE_EVENT_FORMATTED(log_ALERT, ALERT)
PISTE_EVENT_FORMATTED(log_CRIT, CRIT)
PISTE_EVENT_FORMATTED(log_ERR, ERR)
PISTE_EVENT_FORMATTED(log_WARNING, WARNING)
PISTE_EVENT_FORMATTED(log_NOTICE, NOTICE)
PISTE_EVENT_FORMATTED(log_INFO, INFO)
PISTE_EVENT_FORMATTED(log_DEBUG_SYSTEM, DEBUG_SYSTEM)
PISTE_EVENT_FORMATTED(log_DEBUG_PROGRAM, DEBUG_PROGRAM)
PISTE_EVENT_FORMATTED(log_DEBUG_PROCESS, DEBUG_PROCESS)
PISTE_EVENT_FORMATTED(log_DEBUG_MODULE, DEBUG_MODULE)
PISTE_EVENT_FORMATTED(log_DEBUG_UNIT, DEBUG_UNIT)
PISTE_EVENT_FORMATTED(log_DEBUG_FUNCTION, DEBUG_FUNCTION)
PISTE_EVENT_FORMATTED(log_DEBUG_LINE, DEBUG_LINE)
PISTE_EVENT_FORMATTED(log_DEBUG, DEBUG)

#endif
