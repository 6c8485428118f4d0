/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Data shared by the BPF program (calls.bpf.c) and its loader (crates/bpf). */

#ifndef PISTE_BPF_CALLS_H
#define PISTE_BPF_CALLS_H

/* Calls have smaller numbers; all others count as the last one. */
#define CALL_COUNT 1024
/* Native and 32-bit programs. */
#define TABLE_COUNT 2
/* Maximum number of copies per call. */
#define COPY_COUNT 6
/* Maximum size of a record. */
#define RECORD_BYTES 32768
/* Filters of a recording. */
#define FILTER_COUNT 512
/* Tests of a filter. */
#define TEST_COUNT 16
/* Elements of a pattern. */
#define PATTERN_COUNT 128

/* How much memory a copy reads. */
enum size_from {
	/* `bytes_each`. */
	SIZE_FIXED,
	/* `bytes_each` times the argument `size_argument`. */
	SIZE_ARGUMENT,
	/* `bytes_each` times the int that the argument `size_argument` points to. */
	SIZE_AT_ARGUMENT,
	/* `bytes_each` times what the call returned. */
	SIZE_RESULT,
	/* `bytes_each` times the word at `size_offset` of the structure that the argument points to. */
	SIZE_IN_STRUCTURE,
	/* As many bits as the argument `size_argument` says, in words of `bytes_each`. */
	SIZE_BITS,
	/* `bytes_each` times the int at `size_offset` of the structure that the argument points to. */
	SIZE_INT_IN_STRUCTURE,
};

enum copy_kind {
	/* A text that ends with a zero byte. */
	COPY_TEXT,
	/* Pointers to texts, up to a null pointer. */
	COPY_TEXTS,
	/* Memory as it is. */
	COPY_BYTES,
	/* What the elements of an array of `struct iovec` point to, one behind the other. The size is that of the array. */
	COPY_VECTOR,
};

enum copy_flags {
	/* The argument points to a structure that has the pointer, at `pointer_offset`. */
	COPY_INDIRECT = 1,
	/* No more bytes than the call returned; of a COPY_VECTOR. */
	COPY_UP_TO_RESULT = 2,
};

/* One thing that an argument points to. */
struct copy {
	__u8 kind;
	__u8 flags;
	__u8 argument;
	__u8 size_from;
	__u8 size_argument;
	__u8 pointer_offset;
	__u8 size_offset;
	__u8 unused;
	__u16 bytes_each;
	__u16 limit_bytes;
};

enum wanted {
	WANTED_ENTRY = 1,
	WANTED_EXIT = 2,
};

/* What is recorded of a call. */
struct call {
	__u8 wanted;
	/* When a copy is made: a bit for each. What cannot be read at the entry is read at the exit. */
	__u8 at_entry;
	__u8 at_exit;
	/* At the exit of a call that did not fail. */
	__u8 at_success;
	/* One more than the index of its filter; 0: it has none. */
	__u16 filter;
	__u16 unused;
	struct copy copies[COPY_COUNT];
};

/* What a test is about. */
enum subject {
	/* The argument `index`. */
	SUBJECT_ARGUMENT,
	/* What the call returned: the test is made at the exit, all others at the entry. */
	SUBJECT_RESULT,
	/* A number in the copy `index`, at `offset`. */
	SUBJECT_MEMBER,
	/* The port of the socket address in the copy `index`. */
	SUBJECT_PORT,
	/* The text in the copy `index`. */
	SUBJECT_TEXT,
	/* The path of the socket address in the copy `index`. */
	SUBJECT_PATH,
	/* The name of the thread. */
	SUBJECT_COMM,
	/* The thread. */
	SUBJECT_TID,
	/* The CPU. */
	SUBJECT_CPU,
};

/* How numbers are compared. */
enum comparison {
	COMPARE_EQUAL,
	COMPARE_LESS,
	COMPARE_GREATER,
	/* They have a bit in common. */
	COMPARE_BITS,
};

/* Elements of a pattern that are no byte. */
enum element {
	/* Any byte. */
	ELEMENT_ANY = 256,
	/* Any text. */
	ELEMENT_STAR = 257,
};

/* A question about a call. Texts are compared with the pattern, numbers, of which `mask` is taken, with `value`. */
struct test {
	__u8 subject;
	__u8 index;
	__u8 comparison;
	__u8 is_signed;
	/* Of a number. */
	__u8 bytes;
	__u8 pattern_count;
	__u16 offset;
	__u64 mask;
	__u64 value;
	__u16 pattern[PATTERN_COUNT];
};

/* Where a decision goes on: the index of a test, or one of these. */
enum decision {
	DECISION_RECORD = 0xfe,
	DECISION_DROP = 0xff,
};

struct jump {
	__u8 yes;
	__u8 no;
};

/* A decision on the answers of the tests: first a test's index or the decision. Jumps go forward. */
struct decider {
	__u8 first;
	__u8 unused;
	struct jump jumps[TEST_COUNT];
};

/* Which calls are recorded: first it is decided whether the entry is, and then, with what the call returned, whether the exit is. */
struct filter {
	__u8 test_count;
	__u8 unused[3];
	struct decider entry;
	struct decider exit;
	struct test tests[TEST_COUNT];
};

/* What became of a copy: two bits for each, the first copy in the lowest. Those of copies that a call does not have are 0. */
enum copy_state {
	/* All of it is there. */
	STATE_WHOLE,
	/* There is more of it. */
	STATE_CUT,
	/* The memory could not be read: it is not there, or was not yet. */
	STATE_UNREADABLE,
	/* It was not asked for, or the call failed and left nothing. */
	STATE_ABSENT,
};

/* The beginning of a record, as tracefs writes those of raw_syscalls. */
struct head {
	__u16 type;
	/* 1 for calls of 32-bit programs. */
	__u8 table;
	__u8 unused;
	__s32 tid;
	__s64 number;
};

/* A record of an entry. If the call has copies that are made at its entry, the record goes on: where they are, as the `__data_loc` fields of
 * tracefs say it (offset from the start of the record in the lower half, length in the upper), and what became of them; then the copies. */
struct entry {
	struct head head;
	__u64 arguments[6];
	__u32 places[COPY_COUNT];
	__u16 states;
	__u16 unused[3];
};

/* The same of an exit, of a call with copies that are made at its exit, or that could not be made at its entry. */
struct exit {
	struct head head;
	__s64 result;
	__u32 places[COPY_COUNT];
	__u16 states;
	__u16 unused[3];
};

/* Of a recording; does not change. */
struct settings {
	/* What records of entries and exits begin with; and those of exits that have what could not be read at the entry. */
	__u16 entry_type;
	__u16 exit_type;
	__u16 late_type;
	__u16 unused;
	/* What `user` cannot read is not copied. */
	__u32 is_of_user;
	__u32 user;
	/* Whoever waits for a ring is woken when it has so many bytes. */
	__u32 wake_bytes;
};

/* Of a recording; may change at any time. */
struct switches {
	__u32 is_on;
	/* Only the threads in `tracked` are recorded. */
	__u32 is_selective;
	/* And those that they start. */
	__u32 follows;
	/* Only what happens on the CPUs in `cpus` is recorded. */
	__u32 selects_cpus;
	/* What happens in the processes in `hidden` is not recorded. */
	__u32 hides;
};

/* In front of a record in the ring. */
struct stamp {
	/* CLOCK_MONOTONIC. */
	__u64 time_ns;
};

/* What a CPU could not do. */
struct counts {
	/* Records that found the ring full; or exits for which the kernel had no memory to note that they are to be recorded. */
	__u64 lost;
	/* Threads that a tracked one started and that the kernel had no memory to note. */
	__u64 untracked;
	__u64 unused[6];
};

#endif
