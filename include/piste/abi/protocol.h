/* SPDX-License-Identifier: MIT */
/*
 * The messages between a traced program and pisted, one datagram each on a SOCK_SEQPACKET unix socket, and the state page
 * that a program without a daemon waits on.
 *
 *   program                                pisted
 *   HELLO (who, what is attached)   ->
 *   EVENTS ... (descriptions)       ->
 *   SYNC token                      ->
 *                                   <-     CHANNEL + memfd ...   ENABLE ...   STATEDUMP ...
 *                                   <-     SYNCED token                       the program continues to start
 *                                   <-     BELL, CHANNEL, FILTER, ENABLE, DISABLE, CHANNEL_GONE, STATEDUMP, SYNC at any time
 *   SYNCED token                    ->
 *   EVENTS, SYNC, MODULE_GONE       ->                                        a library is loaded, unloaded
 *   LATE                            ->                                        SYNCED did not come in time: the start went on
 *
 * Each side answers SYNC with SYNCED once everything sent before it has taken effect. When the socket closes, the program keeps
 * recording into the channels that it has. When it connects to the next daemon, it sends HELLO again with the channels that it
 * has attached, and gets CHANNEL_GONE for those that no longer exist.
 *
 * State page: a file of 4 bytes, a generation number that a starting pisted changes once it listens; programs wait on it with
 * FUTEX_WAIT through a shared read-only mapping, and never load from that mapping (the file may be truncated under them).
 *
 * Places: $PISTE_RUNDIR, when set, holds everything: app.sock, state. Otherwise root's daemon has /run/piste/app.sock and
 * /dev/shm/piste-state-0, that of user UID /run/user/UID/piste/app.sock (/tmp/piste-UID/app.sock where /run/user/UID is
 * missing) and /dev/shm/piste-state-UID. A program registers with root's daemon. It also registers with its user's daemon, if that
 * user could attach a debugger to it: not if its file is set-user-ID or similar, if it has capabilities, or if it changed its
 * privileges earlier (PR_GET_DUMPABLE in prctl(2)).
 * A program with raised privileges takes no setting from its environment.
 */
#ifndef PISTE_ABI_PROTOCOL_H
#define PISTE_ABI_PROTOCOL_H

#include "base.h"

#define PISTE_MESSAGE_MAGIC     0x534d5350u /* "PSMS" */
#define PISTE_MESSAGE_BYTES_MAX 65536u

enum piste_message_type {
	/* program -> pisted */
	PISTE_MESSAGE_HELLO = 1,
	PISTE_MESSAGE_EVENTS = 2,
	PISTE_MESSAGE_MODULE_GONE = 3,
	PISTE_MESSAGE_REFUSED = 4,
	PISTE_MESSAGE_LATE = 5,
	/* pisted -> program */
	PISTE_MESSAGE_CHANNEL = 16,
	PISTE_MESSAGE_CHANNEL_GONE = 17,
	PISTE_MESSAGE_ENABLE = 18,
	PISTE_MESSAGE_DISABLE = 19,
	PISTE_MESSAGE_STATEDUMP = 20,
	PISTE_MESSAGE_BELL = 21,
	PISTE_MESSAGE_FILTER = 22,
	/* both ways */
	PISTE_MESSAGE_SYNC = 32,
	PISTE_MESSAGE_SYNCED = 33,
};

struct piste_message {
	uint32_t magic; /* PISTE_MESSAGE_MAGIC */
	uint32_t type;
	uint32_t total_bytes; /* This header included; equals the datagram's size. */
	uint32_t reserved;
};
PISTE_ABI_SIZE(struct piste_message, 16);

/* Followed by `attached_count` uint32 channel keys, PISTE_CHANNEL_COUNT_MAX at most, then `path_bytes` bytes of the executable's
 * path, 4096 at most. */
struct piste_message_hello {
	struct piste_message message;
	uint16_t version_major; /* PISTE_ABI_MAJOR */
	uint16_t version_minor;
	uint32_t struct_bytes; /* Of this struct; what follows starts there. */
	uint64_t instance_id;  /* Random, drawn once per process (again after fork). */
	int32_t vpid;
	int32_t vppid;
	uint8_t pointer_bits;
	uint8_t ring_index;      /* 0: rseq's concurrency id, 1: CPU. */
	uint16_t attached_count; /* Channels that this process still has from an earlier daemon. */
	uint32_t path_bytes;
	uint8_t process_name[16]; /* As in /proc/self/comm, zero padded. */
	uint8_t record_id
	        [16]; /* From $PISTE_RECORD (32 hex digits), else zero: `piste record` finds its own programs by it. */
};
PISTE_ABI_SIZE(struct piste_message_hello, 80);

#define PISTE_RING_INDEX_CONCURRENCY_ID 0u
#define PISTE_RING_INDEX_CPU            1u

/* Followed by `event_count` event descriptions (event.h). A module with many events sends several of these. */
struct piste_message_events {
	struct piste_message message;
	uint32_t module_id; /* Chosen by the program; never reused in that process. */
	uint32_t event_count;
};
PISTE_ABI_SIZE(struct piste_message_events, 24);

struct piste_message_module_gone {
	struct piste_message message;
	uint32_t module_id;
	uint32_t reserved;
};
PISTE_ABI_SIZE(struct piste_message_module_gone, 24);

/* The program could not carry out a message. */
struct piste_message_refused {
	struct piste_message message;
	uint32_t key;
	uint32_t reason; /* enum piste_refusal */
};
PISTE_ABI_SIZE(struct piste_message_refused, 24);

enum piste_refusal {
	PISTE_REFUSED_TOO_MANY_CHANNELS = 1, /* A program can have PISTE_CHANNEL_COUNT_MAX attached. */
	PISTE_REFUSED_MAPPING = 2,           /* The memory could not be mapped. */
	PISTE_REFUSED_LAYOUT = 3,            /* The channel header is not one this program knows. */
	PISTE_REFUSED_FILTER =
	        4, /* The filter is not one this program knows, or it keeps too many: the events stay disabled. */
};

/* No program needs as many: a bound for what a daemon may make a program keep. */
#define PISTE_CHANNEL_COUNT_MAX 4096u

/* CHANNEL carries the memfd; CHANNEL_GONE and STATEDUMP name the channel only. A CHANNEL that replaces another takes over its
 * events, with their ids; the other one's memory stays until CHANNEL_GONE, for calls that have begun. */
struct piste_message_channel {
	struct piste_message message;
	uint32_t key;
	uint32_t replaces; /* Key, or 0. */
};
PISTE_ABI_SIZE(struct piste_message_channel, 24);

/* Carries the memfd of a board (a page of words that announce records, see ring.h); the channel of the next CHANNEL message has the word
 * with this number as its bell. A channel without a bell is polled all the time. */
struct piste_message_bell {
	struct piste_message message;
	uint32_t bell_index;
	uint32_t reserved;
};
PISTE_ABI_SIZE(struct piste_message_bell, 24);

/* The events of the next ENABLE message are recorded if they pass the filter that follows (filter.h). Without this message they have
 * none. An ENABLE message replaces the filter that an event had in the channel. */
struct piste_message_filter {
	struct piste_message message;
	uint32_t filter_bytes;
	uint32_t reserved;
};
PISTE_ABI_SIZE(struct piste_message_filter, 24);

struct piste_enabled_event {
	uint32_t module_id;
	uint32_t event_index;
	uint32_t event_id; /* In the channel. 0 in DISABLE. */
	uint32_t reserved;
};
PISTE_ABI_SIZE(struct piste_enabled_event, 16);

/* ENABLE and DISABLE, followed by `event_count` struct piste_enabled_event. */
struct piste_message_enable {
	struct piste_message message;
	uint32_t key;
	uint32_t event_count;
};
PISTE_ABI_SIZE(struct piste_message_enable, 24);

struct piste_message_sync {
	struct piste_message message;
	uint64_t token;
};
PISTE_ABI_SIZE(struct piste_message_sync, 24);

#endif
