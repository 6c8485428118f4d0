/* SPDX-License-Identifier: MIT */
/*
 * The memory that a traced program writes its events to: one memfd for each program and channel.
 *
 *   offset                                size
 *   0                                     4096                  struct piste_channel_header
 *   ring_offset_bytes + i * ring_stride   ring_stride_bytes     ring i, for i < ring_count:
 *     + 0                                 4096                  struct piste_ring_header, and nothing
 *     + 4096                              ring_bytes            sub-buffers, each a CTF packet
 *     + 4096 + ring_bytes                 128 * subbuf_count    struct piste_subbuf, one for each sub-buffer
 *     + marks_offset_bytes                ring_bytes / 8        marks, one byte for each unit of 8 data bytes
 *
 * where ring_bytes = subbuf_bytes * subbuf_count. The sizes decide the offsets: ring 0 follows the channel header, the parts of a
 * ring follow each other without gaps, and the stride is the next power of two that holds a ring. The data start at the same
 * place in every ring, so that the event path need not look it up.
 * Each side computes them and rejects a memfd whose header has other offsets, that is not sealed against shrinking, growing and
 * further seals, or in which anything is set that this version does not know.
 *
 * A ring whose bytes are all zero is a valid empty ring. So pisted sizes and seals the memfd but fills in only the channel header,
 * and a ring that nobody writes to takes no memory. Rings are indexed by rseq's concurrency id, else by CPU.
 *
 * Bells         Most channels are idle most of the time, and polling them all would take a CPU. So each channel has a bell: a word
 *               of a board, which is a second memfd that programs of one user share. A program stores a new value there after it
 *               has entered a sub-buffer or touched a ring. The consumer compares all words with their last values and polls only
 *               the rings of channels whose word has changed. The value has no meaning. Overwriting the bell of another
 *               channel causes one needless poll, or delays a poll by at most LOOK_AT_ALL (crates/daemon).
 *
 * Position      A ring is an endless sequence of units of 8 bytes, numbered from 0; a record starts at a unit. Position p lies
 *               in sub-buffer sequence s = p / units per sub-buffer, kept at index s % subbuf_count, in lap s / subbuf_count.
 * Packet        Each sub-buffer starts with struct piste_packet_header, reserved by whoever enters the sub-buffer; records
 *               follow without gaps but the padding to units; padding fills the end.
 * Marks         Each unit that is committed carries its lap's tag in its mark, and the first unit of a record the bit HEAD too.
 *               A sub-buffer is complete when all its units carry the tag, and has as many records as heads. Marks are the
 *               commit: plain byte stores, no counter. If a program died between reserve and commit, the marks show exactly
 *               which records are complete, wherever the gap is.
 *
 * Invariants
 *  R1  The write position only grows, by compare-and-swap, and the clock is read between its load and its swap: the order of
 *      records in a ring is the order of their time.
 *  R2  A sub-buffer is entered for lap L only when its lap L - 1 is complete, so nobody else can be writing to it: the reader
 *      moves `consumed` only over complete sub-buffers, and a program that overwrites looks at the marks itself.
 *  R3  A compact record's time differs from that of a committed record before it in the low 27 bits only: a compact header is
 *      written only in the ring's current window (the time without these bits), which is stored after the commit of a record
 *      of that window. A reader needs no uncommitted record to know the time of a committed one.
 *  R4  In a ring that overwrites, `consumed` moves by compare-and-swap from either side: whoever moves it past a sub-buffer
 *      decides whether its records were delivered or overwritten. While it is claimed the program does not overwrite.
 *  R5  Every record that a call could not write is counted, once, in one of the discarded counters.
 *  R6  The reader trusts nothing here: it copies a sub-buffer before it checks it, and reads every word once.
 *  R7  In each lap every unit's mark is stored once, a record's head last, so that a mark is at most one lap old.
 *
 * The writing side is include/piste/ring.h and runtime/ring.c, the reading side crates/ring.
 */
#ifndef PISTE_ABI_RING_H
#define PISTE_ABI_RING_H

#include "base.h"

#define PISTE_CHANNEL_MAGIC    0x48435350u /* "PSCH" */

#define PISTE_UNIT_BYTES       8u
#define PISTE_RING_COUNT_MAX   4096u
#define PISTE_SUBBUF_BYTES_MIN 4096u
#define PISTE_SUBBUF_BYTES_MAX (64u << 20)
#define PISTE_SUBBUF_COUNT_MIN 2u
#define PISTE_SUBBUF_COUNT_MAX 4096u
#define PISTE_RING_PAGE_BYTES  4096u
#define PISTE_BOARD_BYTES      16384u /* Of uint32 bells; sealed like a channel's memory. */

/* What happens to an event when its ring is full. */
enum piste_loss_mode {
	PISTE_LOSS_DISCARD = 0,   /* The newest event is discarded and counted. */
	PISTE_LOSS_OVERWRITE = 1, /* The oldest sub-buffer is overwritten, and its records counted. */
	PISTE_LOSS_BLOCK = 2,     /* The call waits for space, at most block_timeout_us, then discards and counts. */
};

enum piste_clock {
	PISTE_CLOCK_MONOTONIC = 0, /* CLOCK_MONOTONIC, in nanoseconds. */
	PISTE_CLOCK_TSC = 1,       /* x86's invariant time stamp counter, in cycles. */
};

/* Contexts that each record of the channel carries between its header and its fields: first these, in this order ... */
#define PISTE_CONTEXT_VTID   1u /* int32: thread id in the program's own pid namespace. */
#define PISTE_CONTEXT_CPU_ID 2u /* uint16: CPU that recorded the event. */
#define PISTE_CONTEXT_ALL    3u

/* ... then those of `more`, in the order that they have there. */
#define PISTE_MORE_COUNT_MAX     40u
#define PISTE_MORE_BYTES_MAX     2048u /* Of one record, all of them at their longest. */
#define PISTE_CONTEXT_NAME_BYTES 48u
#define PISTE_CONTEXT_TEXT_BYTES 256u /* Of a text at its longest, with its zero byte. */
#define PISTE_CONTEXT_COMM_BYTES 16u

enum piste_context_kind {
	PISTE_CONTEXT_VPID = 1,       /* int32: process id in the program's own pid namespace. */
	PISTE_CONTEXT_PROCNAME = 2,   /* 16 bytes: name of the thread, up to the first zero byte. */
	PISTE_CONTEXT_PTHREAD_ID = 3, /* uint64: pthread_self(). */
	PISTE_CONTEXT_IP = 4,         /* uint64: address behind the call that recorded the event. */
	PISTE_CONTEXT_NICE = 5,       /* int32 */
	PISTE_CONTEXT_PRIO = 6,       /* int32: nice + 20; -1 - priority of real time; -101: deadline. */
	/* uint32: ids of the thread in its own user namespace. */
	PISTE_CONTEXT_VUID = 7,
	PISTE_CONTEXT_VEUID = 8,
	PISTE_CONTEXT_VSUID = 9,
	PISTE_CONTEXT_VGID = 10,
	PISTE_CONTEXT_VEGID = 11,
	PISTE_CONTEXT_VSGID = 12,
	/* uint32: inode number of a namespace of the thread; 0 where the system does not say it. */
	PISTE_CONTEXT_CGROUP_NS = 13,
	PISTE_CONTEXT_IPC_NS = 14,
	PISTE_CONTEXT_MNT_NS = 15,
	PISTE_CONTEXT_NET_NS = 16,
	PISTE_CONTEXT_PID_NS = 17,
	PISTE_CONTEXT_TIME_NS = 18,
	PISTE_CONTEXT_USER_NS = 19,
	PISTE_CONTEXT_UTS_NS = 20,
	PISTE_CONTEXT_CGROUP_PATH =
	        21, /* String: path of the thread's control group (version 2); empty where there is none. */
	PISTE_CONTEXT_USAGE =
	        22, /* uint64: what the kernel counts of the thread, `config` says what: enum piste_usage. */
	PISTE_CONTEXT_COUNTER =
	        23, /* enum piste_dynamic: a hardware counter of the thread: perf_event_open()'s type, config. */
	PISTE_CONTEXT_APPLICATION = 24, /* enum piste_dynamic: what the program says for `name`. */
	PISTE_CONTEXT_KIND_LAST = 24,
};

enum piste_usage {
	PISTE_USAGE_TASK_CLOCK = 0, /* Nanoseconds. */
	PISTE_USAGE_PAGE_FAULTS = 1,
	PISTE_USAGE_MINOR_FAULTS = 2,
	PISTE_USAGE_MAJOR_FAULTS = 3,
	PISTE_USAGE_CONTEXT_SWITCHES = 4,
	PISTE_USAGE_LAST = 4,
};

/* A value whose type is in the record: a uint8 of these, then the value. */
enum piste_dynamic {
	PISTE_DYNAMIC_NONE = 0, /* Nothing: nobody knows the value. */
	PISTE_DYNAMIC_INT64 = 1,
	PISTE_DYNAMIC_UINT64 = 2,
	PISTE_DYNAMIC_FLOAT64 = 3,
	PISTE_DYNAMIC_STRING = 4, /* Bytes, then a zero byte. */
};

struct piste_context {
	uint32_t kind;   /* enum piste_context_kind */
	uint32_t type;   /* Of COUNTER, otherwise 0. */
	uint64_t config; /* Of COUNTER and USAGE, otherwise 0. */
	uint8_t name
	        [PISTE_CONTEXT_NAME_BYTES]; /* Of APPLICATION: "provider:name" with a zero byte; otherwise zero bytes. */
};
PISTE_ABI_SIZE(struct piste_context, 64);

/* pisted writes it before anybody maps the memory, keeps its own copy, and uses only that copy. After that only active_key and
 * touched change. */
struct piste_channel_header {
	uint32_t magic; /* PISTE_CHANNEL_MAGIC */
	uint16_t version_major;
	uint16_t version_minor;
	uint32_t struct_bytes;
	uint32_t key; /* Not 0. Names this memory: unique for the life of the daemon's sessions. */
	uint32_t loss_mode;
	uint32_t clock;
	uint32_t contexts;
	uint32_t ring_count;
	uint32_t subbuf_bytes; /* A power of two. */
	uint32_t subbuf_count; /* A power of two. */
	uint64_t marks_offset_bytes;
	uint64_t ring_offset_bytes;
	uint64_t ring_stride_bytes; /* A power of two. */
	uint64_t total_bytes;
	uint32_t block_timeout_us; /* For PISTE_LOSS_BLOCK; UINT32_MAX waits without limit. */
	uint32_t more_count;       /* Of contexts in `more`. */
	uint32_t reserved_0[12];

	/* `key` while the session records, else 0. The consumer stores; then it closes the windows of the rings. The program reads it
	 * after it has opened a window, and for each record outside an open one. */
	uint32_t active_key;
	uint32_t reserved_1[31];

	uint64_t touched[PISTE_RING_COUNT_MAX / 64]; /* Bit i: ring i was written to. The program sets. */
	struct piste_context more[PISTE_MORE_COUNT_MAX];
	uint64_t reserved_2[96];
};
PISTE_ABI_SIZE(struct piste_channel_header, 4096);

/* `position` packs the write position with the CPU that moved it last: position | (cpu & mask) << PISTE_POSITION_CPU_SHIFT. A
 * writer on that CPU knows without a fence that its clock is not behind the record before (the clock may be read ahead of older
 * loads), and moves the position by adding to it. 52 bits of units are 36 petabytes in one ring. */
#define PISTE_POSITION_CPU_SHIFT  52
#define PISTE_POSITION_CPU_MASK   0xfffu
#define PISTE_POSITION_UNITS_MASK 0xfffffffffffffu

/* `window` is the low 32 bits of time >> PISTE_RECORD_TIME_BITS, for a record that is committed, as good as the newest; 32 bits last
 * for years. While it is the time's, and the time is on the CPU of the position, the event path asks nothing else. So the
 * consumer closes the windows to stop a program: no time is in a closed one. */
#define PISTE_WINDOW_CLOSED 0x100000000u

/* `consumed` packs the sequence of the oldest sub-buffer not yet delivered or overwritten with the reader's claim on it. */
#define PISTE_CONSUMED_CLAIMED       1u
#define PISTE_CONSUMED_SHIFT         1

#define PISTE_RING_DATA_OFFSET_BYTES 4096u

struct piste_ring_header {
	/* CPU << PISTE_POSITION_CPU_SHIFT | units. Program and consumer move it by compare-and-swap. */
	uint64_t position;
	/* In which compact records may be written. Program stores; consumer closes. */
	uint64_t window;
	uint64_t reserved_0[14];

	/* Sequence << PISTE_CONSUMED_SHIFT | claim. Consumer moves; program too when overwriting. */
	uint64_t consumed;
	/* Grows when the consumer made space; blocked programs wait on it. `waiters` are their threads. */
	uint32_t space_futex;
	uint32_t waiters;
	uint64_t reserved_1[14];

	/* Records and packets. Program adds (relaxed); consumer reads. */
	uint64_t discarded_full;      /* No space. */
	uint64_t discarded_too_large; /* Larger than a sub-buffer holds. */
	uint64_t overwritten_records;
	uint64_t overwritten_packets;
	uint64_t reserved_2[12];

	uint64_t reserved_3[16];
};
PISTE_ABI_SIZE(struct piste_ring_header, 512);

/* Mark of a unit: tag of its lap, and whether a record starts there. The packet header and the padding have no head. 0: never
 * written. */
#define PISTE_MARK_TAG_ALWAYS 0x40u
#define PISTE_MARK_LAP_MASK   0x3fu
#define PISTE_MARK_TAG_MASK   0x7fu
#define PISTE_MARK_HEAD       0x80u

/* `ended` says where the content of a sub-buffer ends: (sequence + 1) << PISTE_ENDED_SEQUENCE_SHIFT | units of content, the
 * packet header included. Whoever ends the sub-buffer stores `discarded`, then `ended` (release), then marks the padding.
 *
 * A sub-buffer that records fill completely is not ended: `ended` keeps the sequence of an earlier lap. Whoever enters
 * the next sub-buffer stores `discarded` first. Several threads can do this concurrently and with a delay, so a smaller number
 * can replace a larger one; readers keep the largest. */
#define PISTE_ENDED_SEQUENCE_SHIFT 24
#define PISTE_ENDED_UNITS_MASK     0xffffffu

struct piste_subbuf {
	uint64_t ended;
	uint64_t discarded; /* Sum of the ring's discarded counters when the sub-buffer ended. */
	uint64_t reserved[14];
};
PISTE_ABI_SIZE(struct piste_subbuf, 128);

/* Packet header and packet context of the trace, as they stand at the start of each sub-buffer. The program writes
 * timestamp_begin; the consumer fills in the rest in its own copy. */
#define PISTE_CTF_MAGIC 0xc1fc1fc1u

#pragma pack(push, 4)
struct piste_packet_header {
	uint32_t ctf_magic;
	uint8_t trace_uuid[16];
	uint32_t stream_id;
	uint64_t stream_instance_id;
	uint64_t timestamp_begin; /* Ticks: when the sub-buffer was entered. */
	uint64_t timestamp_end;   /* Ticks: time of the last record, else timestamp_begin. */
	uint64_t content_bits;
	uint64_t packet_bits;
	uint64_t packet_seq_num;
	uint64_t events_discarded; /* Since the start of the stream. */
	uint32_t ring_index;       /* Not the CPU, which only the events contain. */
	int32_t vpid;              /* Process id in the program's own pid namespace, as the program reports it. */
	int32_t pid;  /* Process id in pisted's pid namespace, from the kernel, when the program connected. */
	uint32_t uid; /* User id, from the kernel, when the program connected. */
};
#pragma pack(pop)
PISTE_ABI_SIZE(struct piste_packet_header, 96);

/* Record: header, contexts, fields; nothing aligned inside, the start aligned to a unit.
 *   compact    uint32 id in bits 0..4 (0..30), time's low 27 bits above
 *   extended   uint8 31, uint32 id, uint64 time */
#define PISTE_RECORD_ID_EXTENDED    31u
#define PISTE_RECORD_ID_BITS        5
#define PISTE_RECORD_TIME_BITS      27
#define PISTE_RECORD_COMPACT_BYTES  4u
#define PISTE_RECORD_EXTENDED_BYTES 13u

#endif
