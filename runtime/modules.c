/* SPDX-License-Identifier: MIT */
/* Programs and libraries with events: the list of them, and the state of their events. */
#define _GNU_SOURCE
#include "runtime.h"

#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
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

/* ---- The state of an event: its slots, and what its fast path does ---- */

/* The filter of one channel for an event. */
struct piste_slot_filter {
	struct piste_slot_filter *next;
	const struct piste_filter *filter; /* NULL: it has none any more. */
	uint32_t slot;
};

void *piste_take_memory(size_t bytes)
{
	static uint8_t *chunk;
	static size_t chunk_bytes;
	const size_t chunk_bytes_wanted = 65536;
	void *memory;

	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > chunk_bytes) {
		memory = mmap(NULL, chunk_bytes_wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED || bytes > chunk_bytes_wanted)
			return NULL;
		chunk = memory;
		chunk_bytes = chunk_bytes_wanted;
	}
	memory = chunk;
	chunk += bytes;
	chunk_bytes -= bytes;
	return memory;
}

/* The word of a slot; NULL when the event has no such slot, and, if it is `wanted`, there is no memory for it. */
static volatile uint64_t *slot_of(struct piste_event *event, uint32_t slot, bool wanted)
{
	struct piste_slots *slots = &event->slots;

	for (; slot >= PISTE_SLOTS_COUNT; slot -= PISTE_SLOTS_COUNT) {
		if (!slots->next && !wanted)
			return NULL;
		if (!slots->next) {
			struct piste_slots *more = piste_take_memory(sizeof(*more));

			if (!more)
				return NULL;
			/* ORDER event.slot (release): as in piste_event_enable(). */
			piste_store_release(&slots->next, more);
		}
		slots = slots->next;
	}
	if (wanted && slots->used <= slot)
		piste_store_release(&slots->used, slot + 1);
	return slots->used > slot ? &slots->word[slot] : NULL;
}

static struct piste_slot_filter *slot_filter_of(const struct piste_event *event, uint32_t slot)
{
	struct piste_slot_filter *filter = piste_load_acquire(&event->filters);

	while (filter && filter->slot != slot)
		filter = filter->next;
	return filter;
}

const struct piste_filter *piste_event_filter(const struct piste_event *event, uint32_t slot)
{
	struct piste_slot_filter *filter = slot_filter_of(event, slot);

	return filter ? piste_load_acquire(&filter->filter) : NULL;
}

/* What was made for a slot stays, since threads look through the list. */
static bool set_filter(struct piste_event *event, uint32_t slot, const struct piste_filter *filter)
{
	struct piste_slot_filter *known = slot_filter_of(event, slot);

	if (known) {
		/* ORDER event.filter (release): the filter is complete. Pairs with the loads in piste_event_filter(). */
		piste_store_release(&known->filter, filter);
		return true;
	}
	if (!filter)
		return true;
	known = piste_take_memory(sizeof(*known));
	if (!known)
		return false;
	*known = (struct piste_slot_filter){event->filters, filter, slot};
	/* ORDER event.filter (release): as above. */
	piste_store_release(&event->filters, known);
	return true;
}

/* Lets the fast path have the event if one channel records it and it can; otherwise the general path. One store switches it. */
static void choose_path(struct piste_event *event)
{
	struct piste_channel *first = NULL;
	const struct piste_filter *filter = NULL;
	struct piste_view *views = NULL;
	uint32_t number = 0;
	uint64_t only = 0;

	for (struct piste_slots *slots = &event->slots; slots; slots = slots->next)
		for (uint32_t slot = 0; slot < slots->used; slot++) {
			uint64_t word = piste_load_relaxed(&slots->word[slot]);
			struct piste_channel *channel = piste_slot_channel(word);
			const struct piste_filter *own = piste_event_filter(event, number++);
			bool is_fast = word && channel->is_plain && piste_slot_id(word) < PISTE_RECORD_ID_EXTENDED &&
			               !own && !first;

			if (!word)
				continue;
			views = piste_channel_view(first ? first : channel,
			                           is_fast ? piste_slot_id(word) : PISTE_RECORD_ID_EXTENDED);
			only = first || own ? 0 : word;
			filter = first ? NULL : own;
			first = first ? first : channel;
		}
	/* ORDER event.filter (release): as in set_filter(). */
	piste_store_release(&event->filter, filter);
	piste_store_release(&event->range, filter ? piste_filter_first_range(filter) : NULL);
	/* ORDER event.slot (release): as in piste_event_enable(). */
	piste_store_release(&event->only, only);
	/* ORDER event.slot (release): the slots are set before. Pairs with record.c. */
	piste_store_release(&event->enabled, (uint64_t)(uintptr_t)views);
}

bool piste_event_enable(struct piste_event *event, uint32_t slot, struct piste_channel *channel, uint32_t id,
                        const struct piste_filter *filter)
{
	volatile uint64_t *word = slot_of(event, slot, true);

	if (!word || !set_filter(event, slot, filter))
		return false;
	/* ORDER event.slot (release): the channel is described before it is named. Pairs with record.c. */
	piste_store_release(word, piste_slot_word(channel, id));
	choose_path(event);
	return true;
}

void piste_event_disable(struct piste_event *event, uint32_t slot)
{
	volatile uint64_t *word = slot_of(event, slot, false);

	if (!word || !piste_load_relaxed(word))
		return;
	piste_store_relaxed(word, 0);
	set_filter(event, slot, NULL);
	choose_path(event);
}

struct piste_event piste_event_only(const struct piste_event *event, uint32_t slot)
{
	volatile uint64_t *word = slot_of((struct piste_event *)(uintptr_t)event, slot, false);
	struct piste_event only = {0, PISTE_EVENT_MAGIC, 0, event->info, 0, NULL, NULL, NULL, 0, {1, 0, NULL, {0}}};

	only.slots.word[0] = word ? piste_load_relaxed(word) : 0;
	return only;
}

/* The event at `index` of all modules, in the order of their ids, and the module and the index of the next one. NULL: there is none. */
static struct piste_event *next_event(struct piste_module **module, uint32_t *index)
{
	for (; *module; *module = (*module)->next, *index = 0)
		while (*index < piste_module_event_count(*module)) {
			struct piste_event *event = piste_module_event(*module, (*index)++);

			if (event)
				return event;
		}
	return NULL;
}

void piste_modules_disable(uint32_t slot)
{
	struct piste_module *module = first_module;
	struct piste_event *event;
	uint32_t index = 0;

	while ((event = next_event(&module, &index)))
		piste_event_disable(event, slot);
}

void piste_modules_disable_all(void)
{
	struct piste_module *module = first_module;
	struct piste_event *event;
	uint32_t index = 0;

	while ((event = next_event(&module, &index))) {
		for (struct piste_slots *slots = &event->slots; slots; slots = slots->next)
			for (uint32_t slot = 0; slot < slots->used; slot++)
				piste_store_relaxed(&slots->word[slot], 0);
		for (struct piste_slot_filter *filter = event->filters; filter; filter = filter->next)
			piste_store_relaxed(&filter->filter, NULL);
		choose_path(event);
	}
}

void piste_modules_move(uint32_t slot, struct piste_channel *from, struct piste_channel *to)
{
	struct piste_module *module = first_module;
	struct piste_event *event;
	uint32_t index = 0;

	while ((event = next_event(&module, &index))) {
		volatile uint64_t *word = slot_of(event, slot, false);
		uint64_t enabled = word ? piste_load_relaxed(word) : 0;

		if (enabled && piste_slot_channel(enabled) == from)
			piste_event_enable(event, slot, to, piste_slot_id(enabled), piste_event_filter(event, slot));
	}
}
