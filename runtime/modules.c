/* SPDX-License-Identifier: MIT */
/* Programs and libraries with events: the list of them, and the state of their events. */
#define _GNU_SOURCE
#include "runtime.h"

#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A lock of our own, since the C library's may be what is traced. */
enum { UNLOCKED, LOCKED, LOCKED_AND_WAITED_FOR };
static uint32_t lock_state;
static sigset_t signals_over_fork;

/* In the order of their ids. A module that a destructor unregistered is not in the list. */
static struct piste_module *first_module;
static uint32_t last_module_id;
/* Of the last module that was compiled against another contract; 0: there was none. */
static uint32_t foreign_major;

void piste_lock(sigset_t *before)
{
	uint32_t state = UNLOCKED;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	if (__atomic_compare_exchange_n(&lock_state, &state, LOCKED, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&lock_state, LOCKED_AND_WAITED_FOR, __ATOMIC_ACQUIRE) != UNLOCKED)
		syscall(SYS_futex, &lock_state, FUTEX_WAIT_PRIVATE, LOCKED_AND_WAITED_FOR, NULL, NULL, 0);
}

void piste_unlock(const sigset_t *before)
{
	if (__atomic_exchange_n(&lock_state, UNLOCKED, __ATOMIC_RELEASE) == LOCKED_AND_WAITED_FOR)
		syscall(SYS_futex, &lock_state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

void piste_lock_over_fork(void)
{
	sigset_t before;

	piste_lock(&before);
	signals_over_fork = before;
}

void piste_unlock_after_fork(void)
{
	sigset_t before = signals_over_fork;

	piste_unlock(&before);
}

/* The runtime's own events go along with those of the first module that has others. */
static bool has_events_to_announce(struct piste_module *module)
{
	for (uint32_t index = 0; index < piste_module_event_count(module); index++) {
		struct piste_event *event = piste_module_event(module, index);

		if (event && strcmp(event->info->provider, "lttng_ust_statedump") != 0)
			return true;
	}
	return false;
}

void piste_module_register(struct piste_module *module, uint32_t abi_major)
{
	struct piste_module **end = &first_module;
	sigset_t before;
	uint8_t ring_index;

	/* Its events stay disabled, since nobody knows what they look like. Daemons refuse the whole program and say so. */
	if (abi_major != PISTE_ABI_MAJOR) {
		uint32_t id;

		piste_lock(&before);
		foreign_major = abi_major;
		id = ++last_module_id;
		piste_unlock(&before);
		piste_runtime_announce(id);
		return;
	}
	module->offsets = piste_thread_offsets_find(&ring_index);
	piste_lock(&before);
	module->id = ++last_module_id;
	module->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = module;
	piste_unlock(&before);
	if (has_events_to_announce(module))
		piste_runtime_announce(module->id);
}

void piste_module_unregister(struct piste_module *module)
{
	struct piste_module **link = &first_module;
	sigset_t before;
	bool found;

	piste_lock(&before);
	while (*link && *link != module)
		link = &(*link)->next;
	found = *link != NULL;
	if (found)
		*link = module->next;
	piste_unlock(&before);
	if (found)
		piste_runtime_module_gone(module->id);
}

struct piste_module *piste_modules_after(uint32_t module_id)
{
	struct piste_module *module = first_module;

	while (module && module->id <= module_id)
		module = module->next;
	return module;
}

struct piste_module *piste_module_find(uint32_t module_id)
{
	struct piste_module *module = module_id ? piste_modules_after(module_id - 1) : NULL;

	return module && module->id == module_id ? module : NULL;
}

uint32_t piste_modules_abi_major(void)
{
	return foreign_major ? foreign_major : PISTE_ABI_MAJOR;
}

uint32_t piste_modules_newest(void)
{
	return last_module_id;
}

uint32_t piste_module_event_count(const struct piste_module *module)
{
	return (uint32_t)(module->events_end - module->events);
}

struct piste_event *piste_module_event(struct piste_module *module, uint32_t event_index)
{
	struct piste_event *event = module->events + event_index;

	/* The linker may leave gaps between the files' parts of the section. */
	return event_index < piste_module_event_count(module) && event->magic == PISTE_EVENT_MAGIC ? event : NULL;
}

static void name_channel(struct piste_event *event, uint32_t slot, struct piste_channel *channel, uint32_t id)
{
	uint64_t enabled = (uint64_t)(uintptr_t)channel | (id & 0xfff) | (uint64_t)(id >> 12) << 48;

	/* ORDER event.slot (release): the channel is described before it is named. */
	piste_store_release(&event->slot[slot], enabled);
}

void piste_event_enable(struct piste_event *event, uint32_t slot, struct piste_channel *channel, uint32_t id)
{
	name_channel(event, slot, channel, id);
	/* ORDER event.slot (release): the slot is set before its bit. Pairs with piste/tracepoint.h. */
	__atomic_fetch_or(&event->enabled, 1u << slot, __ATOMIC_RELEASE);
}

void piste_event_disable(struct piste_event *event, uint32_t slot)
{
	__atomic_fetch_and(&event->enabled, ~(1u << slot), __ATOMIC_RELAXED);
}

void piste_modules_disable(uint32_t bits)
{
	for (struct piste_module *module = first_module; module; module = module->next)
		for (uint32_t index = 0; index < piste_module_event_count(module); index++) {
			struct piste_event *event = piste_module_event(module, index);

			if (event)
				__atomic_fetch_and(&event->enabled, ~bits, __ATOMIC_RELAXED);
		}
}

void piste_modules_move(uint32_t slot, struct piste_channel *from, struct piste_channel *to)
{
	for (struct piste_module *module = first_module; module; module = module->next)
		for (uint32_t index = 0; index < piste_module_event_count(module); index++) {
			struct piste_event *event = piste_module_event(module, index);
			uint64_t enabled = event ? piste_load_relaxed(&event->slot[slot]) : 0;

			if (enabled && piste_enabled_channel(enabled) == from)
				name_channel(event, slot, to, piste_enabled_id(enabled));
		}
}
