/* SPDX-License-Identifier: MIT */
/*
 * The inside of libpiste. In the order in which a program meets them:
 *
 *   modules.c        programs and libraries with events: registration, enabling
 *   runtime_thread.c the thread that waits for daemons and talks to them; fork
 *   connection.c     one daemon: its messages
 *   describe.c       events as messages describe them
 *   places.c         where a daemon's socket and state page are
 *   channels.c       attaching and detaching channel memory
 *   record.c         the general path of events
 *   filter.c         filters of events
 *   contexts.c       what channels record beside events
 *   counters.c       hardware counters of threads
 *   ring.c           the slow path: entering a sub-buffer, full rings
 *   statedump.c      where the program and its libraries lie in memory
 *   print.c          formatted events
 *   thread.c         thread id, CPU, ring index, clock
 *   abi_3.c          for programs that were built for an earlier contract
 *
 * Nothing here allocates from the program's heap, which may be the thing that is traced. Everything that changes (modules, channels,
 * the state of events) changes under piste_lock(), which also blocks signals, is never held while waiting, and is taken over fork.
 */
#ifndef PISTE_RUNTIME_H
#define PISTE_RUNTIME_H

#include <piste/abi/filter.h>
#include <piste/abi/protocol.h>
#include <piste/context.h>
#include <piste/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PISTE_DAEMON_COUNT 2   /* Root's and the user's own. */
#define PISTE_PATH_BYTES   108 /* Of sun_path. */

#define PISTE_PRIVATE      __attribute__((visibility("hidden")))

struct piste_channel;

/* ---- modules.c ---- */

PISTE_PRIVATE void piste_lock(sigset_t *before);
PISTE_PRIVATE void piste_unlock(const sigset_t *before);
/* fork: the lock is held over it; the child starts anew. */
PISTE_PRIVATE void piste_lock_over_fork(void);
PISTE_PRIVATE void piste_unlock_after_fork(void);

/* The rest of this part: with the lock held. Modules are in the order of their ids. */
PISTE_PRIVATE struct piste_module *piste_modules_after(uint32_t module_id);
PISTE_PRIVATE struct piste_module *piste_module_find(uint32_t module_id);
PISTE_PRIVATE uint32_t piste_modules_newest(void);
/* Of the contract that the program speaks: another one than this library's as soon as any module was compiled against that. */
PISTE_PRIVATE uint32_t piste_modules_abi_major(void);
PISTE_PRIVATE struct piste_event *piste_module_event(struct piste_module *module, uint32_t event_index);
PISTE_PRIVATE uint32_t piste_module_event_count(const struct piste_module *module);
/* Sets the slot of the event to the channel, with a filter or NULL. False: there is no memory for it. */
PISTE_PRIVATE bool piste_event_enable(struct piste_event *event, uint32_t slot, struct piste_channel *channel,
                                      uint32_t id, const struct piste_filter *filter);
PISTE_PRIVATE void piste_event_disable(struct piste_event *event, uint32_t slot);
/* The event as that slot alone has it. */
PISTE_PRIVATE struct piste_event piste_event_only(const struct piste_event *event, uint32_t slot);
/* Of all events of all modules: the slot is cleared, and every slot. */
PISTE_PRIVATE void piste_modules_disable(uint32_t slot);
PISTE_PRIVATE void piste_modules_disable_all(void);
/* Every event whose slot names one channel then names the other, with the same id. */
PISTE_PRIVATE void piste_modules_move(uint32_t slot, struct piste_channel *from, struct piste_channel *to);
/* Memory of zeros that is not given back: a thread may look at what it holds, even while the program ends. NULL: there is none. */
PISTE_PRIVATE void *piste_take_memory(size_t bytes);

/* The filter of a channel for the event, NULL if it has none. Safe in any thread, without the lock. */
PISTE_PRIVATE const struct piste_filter *piste_event_filter(const struct piste_event *event, uint32_t slot);

/* ---- filter.c ---- */

/* Keeps a filter that a daemon sent, for good. NULL: it is not valid, or there is no room for more. With the lock held. */
PISTE_PRIVATE const struct piste_filter *piste_filter_keep(const void *bytes, size_t byte_count);
/* What a filter that was kept asks first, if that is the range of an integer; otherwise NULL. */
PISTE_PRIVATE const struct piste_filter_range *piste_filter_first_range(const struct piste_filter *filter);
/* Whether an event with these fields passes. Safe in signal handlers. */
PISTE_PRIVATE bool piste_filter_passes(const struct piste_filter *filter, const uint8_t *fields, uint64_t bytes);
/* Memory for the fields of one event, until it is given back. NULL: there is none. Safe in signal handlers. */
PISTE_PRIVATE uint8_t *piste_filter_scratch(uint64_t bytes);
PISTE_PRIVATE void piste_filter_scratch_done(uint8_t *memory, uint64_t bytes);

/* ---- contexts.c ---- */

/* Whether a channel can have these: the longest record of them fits. */
PISTE_PRIVATE bool piste_contexts_are_known(const struct piste_context *contexts, uint32_t count);
/* Writes the channel's contexts beyond thread id and CPU. Returns how many bytes they are. Safe in signal handlers, if the program's own
 * functions are. */
PISTE_PRIVATE uint32_t piste_contexts_write(const struct piste_channel *channel, const void *ip,
                                            uint8_t bytes[PISTE_MORE_BYTES_MAX]);
/* Writes one of them, which the program does not define. Safe in signal handlers. */
PISTE_PRIVATE void piste_context_write(const struct piste_context *context, uint8_t bytes[PISTE_CONTEXT_TEXT_BYTES]);
PISTE_PRIVATE void piste_contexts_forked(void);

/* ---- counters.c ---- */

/* A counter of the thread as perf_event_open(2) names it. None: it cannot be read. Safe in signal handlers. */
PISTE_PRIVATE struct piste_value piste_counter_value(uint32_t type, uint64_t config);
PISTE_PRIVATE void piste_counters_forked(void);

/* ---- runtime_thread.c ---- */

/* Makes the thread look at the modules again and waits, at most the time of $PISTE_REGISTER_TIMEOUT, until every daemon that is
 * there has answered for `module_id`. */
PISTE_PRIVATE void piste_runtime_announce(uint32_t module_id);
PISTE_PRIVATE void piste_runtime_module_gone(uint32_t module_id);

/* ---- connection.c ---- */

struct piste_connection {
	int socket; /* -1: none. */
	bool stuck; /* The daemon did not take a message in time: once it reads again, the program must register anew. */
	uint32_t daemon;
	uint32_t abi_major;     /* As HELLO said. */
	uint32_t sent_module;   /* Newest module whose events were sent ... */
	uint32_t synced_module; /* ... and that the daemon has answered for. */
	int board;              /* Of the channel that comes next; -1: it has no bell. */
	uint32_t bell_index;
	const struct piste_filter *filter; /* Of the events that are enabled next. */
	bool filter_refused;               /* They have one that cannot be used. */
};

/* Connects and says hello. False: nobody listens there, or does not take it; errno is EAGAIN when a daemon is too busy. */
PISTE_PRIVATE bool piste_connection_open(struct piste_connection *connection, uint32_t daemon, uint64_t instance_id);
PISTE_PRIVATE void piste_connection_close(struct piste_connection *connection);
/* Sends what is new of the modules. False, here and below: the connection is closed or stuck. */
PISTE_PRIVATE bool piste_connection_announce(struct piste_connection *connection);
/* Says that a thread did not wait for the daemon's answer any longer. */
PISTE_PRIVATE bool piste_connection_late(struct piste_connection *connection);
PISTE_PRIVATE bool piste_connection_module_gone(struct piste_connection *connection, uint32_t module_id);
/* Reads and obeys one message. */
PISTE_PRIVATE bool piste_connection_receive(struct piste_connection *connection);

/* ---- describe.c ---- */

/* Writes the description of `event` into `bytes`, and returns its length; 0 when it does not fit or is larger than allowed. */
PISTE_PRIVATE size_t piste_describe(const struct piste_event *event, uint32_t event_index, uint8_t *bytes,
                                    size_t capacity);

/* ---- places.c ---- */

/* Decides which daemons this process obeys, from what it is now. With the lock held, before the thread starts. */
PISTE_PRIVATE void piste_places_decide(void);
/* How many they are, and where. */
PISTE_PRIVATE uint32_t piste_places_count(void);
PISTE_PRIVATE void piste_place_socket(uint32_t daemon, char path[PISTE_PATH_BYTES]);
PISTE_PRIVATE void piste_place_state(uint32_t daemon, char path[PISTE_PATH_BYTES]);
/* Whether a socket is there, which a daemon may have left behind. */
PISTE_PRIVATE bool piste_place_inhabited(uint32_t daemon);
/* An environment variable; none in a program with raised privileges. */
PISTE_PRIVATE const char *piste_setting(const char *name);

/* ---- channels.c ---- */

/* A channel that this process has attached: a private page, then the views of its events in its rings, then, at `space_bytes`, the
 * mapping of the channel's memory. It does not change after it is published, but for views that are filled in. When the channel goes,
 * zero pages replace all of it, and fork wipes what is private (ARCHITECTURE.md). Both can happen between any two loads of a call
 * that has begun, so on the event path each value must be harmless as zero, and the slow path works on a copy. */
struct piste_channel {
	uint32_t ring_count;
	uint32_t contexts;
	uint32_t lead_bytes; /* Bytes of a record before its fields, without the contexts in `more`. */
	uint32_t clock;
	uint32_t subbuf_units; /* Units of a sub-buffer, a power of two ... */
	uint32_t subbuf_log2;  /* ... and its logarithm. */
	uint32_t subbuf_count;
	uint32_t ring_units_log2;     /* Logarithm of the units of a ring. */
	uint64_t marks_offset_bytes;  /* From the start of a ring. */
	uint64_t header_offset_bytes; /* From this struct to the channel header; ring 0 is behind it. */
	uint64_t ring_stride_bytes;
	uint64_t bell_offset_bytes; /* From this struct; without a board, it leads to private memory. */
	uint32_t loss_mode;
	uint32_t block_timeout_us;
	uint32_t is_plain; /* Events with ids of a compact header may take the fast path. */
	uint32_t key;
	uint64_t mapped_bytes; /* Including this page. */
	uint32_t more_count;
	uint32_t reserved;
	struct piste_context more[PISTE_MORE_COUNT_MAX];
};
_Static_assert(sizeof(struct piste_channel) <= 4096, "the views of the channel's events come next");

/* From the channel to the views of id 0. */
#define PISTE_VIEWS_OFFSET_BYTES 4096u

static inline struct piste_channel_header *piste_channel_header(struct piste_channel *channel)
{
	return (struct piste_channel_header *)((uint8_t *)channel + channel->header_offset_bytes);
}

static inline struct piste_ring_header *piste_channel_ring(struct piste_channel *channel, uint32_t index)
{
	return (struct piste_ring_header *)((uint8_t *)piste_channel_header(channel) +
	                                    (channel->ring_count ? sizeof(struct piste_channel_header) : 0) +
	                                    index * channel->ring_stride_bytes);
}

/* How one word of a slot holds both the channel that records the event and the event's id in that channel: channels are at multiples
 * of 4096 below 2^48, so the id has the low 12 and the high 16 bits. */
#define PISTE_SLOT_CHANNEL_MASK 0x0000fffffffff000u

static inline uint64_t piste_slot_word(const struct piste_channel *channel, uint32_t id)
{
	return (uint64_t)(uintptr_t)channel | (id & 0xfff) | (uint64_t)(id >> 12) << 48;
}

static inline struct piste_channel *piste_slot_channel(uint64_t word)
{
	return (struct piste_channel *)(uintptr_t)(word & PISTE_SLOT_CHANNEL_MASK);
}

static inline uint32_t piste_slot_id(uint64_t word)
{
	return (uint32_t)(word & 0xfff) | (uint32_t)(word >> 48 << 12);
}

/* The view of an event with that id in ring 0. Nothing but the general path looks at that of PISTE_RECORD_ID_EXTENDED. */
static inline struct piste_view *piste_channel_view(struct piste_channel *channel, uint32_t id)
{
	return (struct piste_view *)((uint8_t *)channel + PISTE_VIEWS_OFFSET_BYTES + id * PISTE_VIEW_BYTES);
}

/* The rest of this part: with the lock held. */

/* What a channel's memfds are, and where on the board its bell is. */
struct piste_channel_files {
	int memory;
	int board; /* -1: it has no bell. */
	uint32_t bell_index;
};

/* Maps the memory and gives it a slot: that of channel `replaces`, with its events, where that is not 0. Returns 0, or the enum
 * piste_refusal. Keeps no descriptor. */
PISTE_PRIVATE uint32_t piste_channel_attach(uint32_t daemon, uint32_t key, uint32_t replaces,
                                            struct piste_channel_files files);
PISTE_PRIVATE void piste_channel_detach(uint32_t daemon, uint32_t key);
/* Slot of the daemon's channel, PISTE_CHANNEL_COUNT_MAX when there is none. */
PISTE_PRIVATE uint32_t piste_channel_slot(uint32_t daemon, uint32_t key);
PISTE_PRIVATE struct piste_channel *piste_channel_at(uint32_t slot);
PISTE_PRIVATE uint32_t piste_channel_keys(uint32_t daemon, uint32_t keys[PISTE_CHANNEL_COUNT_MAX]);
PISTE_PRIVATE void piste_channels_forget(void);

/* ---- ring.c ---- */

enum piste_room {
	PISTE_ROOM_MADE,     /* Try again. */
	PISTE_ROOM_NONE,     /* The record is lost and counted. */
	PISTE_ROOM_INACTIVE, /* The channel does not record. */
};

/* Makes room for a record of `units` units in the ring that the thread writes to: enters the next sub-buffer, or waits for space if
 * the channel blocks. Safe in signal handlers. */
PISTE_PRIVATE enum piste_room piste_ring_make_room(struct piste_channel *channel, uint32_t index, uint64_t units);

/* ---- statedump.c ---- */

PISTE_PRIVATE void piste_statedump(uint32_t slot);

/* ---- thread.c ---- */

PISTE_PRIVATE struct piste_thread_offsets piste_thread_offsets_find(uint8_t *ring_index);
/* Since glibc 2.35. The size is 0 when rseq is not registered. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
/* Whether there is the area of rseq. */
static inline bool piste_thread_has_area(void)
{
	return &__rseq_size && __rseq_size != 0;
}
/* Ring indexes are smaller: they are numbers of possible CPUs, or of as many threads. */
PISTE_PRIVATE uint32_t piste_thread_index_count(void);
/* The id of the thread in the pid namespace of the program; 0 until it was asked for. */
PISTE_PRIVATE extern __thread int32_t piste_known_thread_id __attribute__((tls_model("initial-exec")));
/* Gets the id from the kernel, once for each thread. Safe in signal handlers, as the next two. */
PISTE_PRIVATE int32_t piste_thread_id_ask(void);
/* The CPU, without the area. */
PISTE_PRIVATE uint32_t piste_thread_cpu(void);
/* The CPU. */
PISTE_PRIVATE uint32_t piste_thread_current_cpu(void);
/* CLOCK_MONOTONIC, in nanoseconds. Not private, since programs of ABI 3 refer to it (abi_3.c). */
uint64_t piste_clock_monotonic(void);
PISTE_PRIVATE void piste_thread_forked(void);

static inline int32_t piste_thread_id(void)
{
	int32_t id = piste_known_thread_id;

	return piste_likely(id != 0) ? id : piste_thread_id_ask();
}

/* The time in ticks. The TSC is read without waiting for older loads, unless `ordered` is set. */
static inline uint64_t piste_clock_ticks(uint32_t clock, bool ordered)
{
#if defined(__x86_64__)
	if (piste_likely(clock == PISTE_CLOCK_TSC)) {
		if (piste_unlikely(ordered))
			__builtin_ia32_lfence();
		return __builtin_ia32_rdtsc();
	}
#else
	(void)clock;
#endif
	(void)ordered;
	return piste_clock_monotonic();
}

#endif
