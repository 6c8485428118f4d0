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
 *   ring.c           the slow path: entering a sub-buffer, full rings
 *   statedump.c      where the program and its libraries lie in memory
 *   print.c          formatted events
 *   thread.c         thread id, CPU, ring index
 *
 * Nothing here allocates from the program's heap, which may be the thing that is traced. Everything that changes (modules, channels,
 * the state of events) changes under piste_lock(), which also blocks signals, is never held while waiting, and is taken over fork.
 */
#ifndef PISTE_RUNTIME_H
#define PISTE_RUNTIME_H

#include <piste/abi/protocol.h>
#include <piste/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PISTE_DAEMON_COUNT 2   /* Root's and the user's own. */
#define PISTE_PATH_BYTES   108 /* Of sun_path. */

#define PISTE_PRIVATE      __attribute__((visibility("hidden")))

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
/* Clears the bits in all events of all modules. */
PISTE_PRIVATE void piste_modules_disable(uint32_t bits);
/* Every event whose slot names one channel then names the other, with the same id. */
PISTE_PRIVATE void piste_modules_move(uint32_t slot, struct piste_channel *from, struct piste_channel *to);
PISTE_PRIVATE void piste_event_enable(struct piste_event *event, uint32_t slot, struct piste_channel *channel,
                                      uint32_t id);
PISTE_PRIVATE void piste_event_disable(struct piste_event *event, uint32_t slot);

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

/* ---- channels.c: with the lock held ---- */

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

/* ---- statedump.c ---- */

PISTE_PRIVATE void piste_statedump(uint32_t slot);

/* ---- thread.c ---- */

PISTE_PRIVATE struct piste_thread_offsets piste_thread_offsets_find(uint8_t *ring_index);
PISTE_PRIVATE void piste_thread_forked(void);

#endif
