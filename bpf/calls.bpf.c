// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Records system calls together with what their arguments point to. The helpers that read the memory of programs are for programs under the GPL
 * only, hence the licence.
 *
 * A record is like those of tracefs (calls.h), and goes to the ring of its CPU. A record that has no room is counted.
 *
 * Memory that is not there is not waited for: a page that a program has not touched yet cannot be read at the entry of the call. What the kernel
 * itself reads is there at the exit, and is copied then. */

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "calls.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define CPU_COUNT_MAX 8192
/* More than the kernel has. */
#define THREAD_COUNT_MAX (1 << 22)
#define TEXT_COUNT_MAX   64
#define VECTOR_COUNT_MAX 32
#define MASK             (RECORD_BYTES - 1)

/* As far as the kernel's structures matter here; the loader finds out where the running kernel has the fields. */
struct kuid___piste {
	u32 val;
} __attribute__((preserve_access_index));

struct cred___piste {
	struct kuid___piste uid, euid, suid, fsuid;
} __attribute__((preserve_access_index));

struct thread_info___piste {
	unsigned long flags;
	u32 status;
} __attribute__((preserve_access_index));

struct mm_struct;

struct task_struct___piste {
	struct thread_info___piste thread_info;
	const struct cred___piste *cred;
	const struct mm_struct *mm;
	s32 pid, tgid;
} __attribute__((preserve_access_index));

/* The flags were a number until Linux 6.17. */
struct mm_struct___number {
	unsigned long flags;
} __attribute__((preserve_access_index));

typedef struct {
	unsigned long words[1];
} mm_flags_t___piste;

struct mm_struct___bits {
	mm_flags_t___piste flags;
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_x86)
struct pt_regs___piste {
	unsigned long bx, cx, dx, si, di, bp, r8, r9, r10, orig_ax;
} __attribute__((preserve_access_index));
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs___piste {
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
} __attribute__((preserve_access_index));
#elif defined(__TARGET_ARCH_riscv)
struct pt_regs___piste {
	unsigned long status, orig_a0, a1, a2, a3, a4, a5, a7;
} __attribute__((preserve_access_index));
#endif

/* Set before the program is loaded. */
const volatile struct settings settings = {};

/* Something could not be read at the entry of its call; and a call with a filter was recorded. */
u32 has_unread, has_chosen;

/* One element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct switches);
} switches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TABLE_COUNT *CALL_COUNT);
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

/* By thread id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, THREAD_COUNT_MAX);
	__type(key, s32);
	__type(value, u8);
} tracked SEC(".maps");

/* By CPU: not 0 where calls are recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPU_COUNT_MAX);
	__type(key, u32);
	__type(value, u32);
} cpus SEC(".maps");

/* By process id: left out. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, s32);
	__type(value, u8);
} hidden SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FILTER_COUNT);
	__type(key, u32);
	__type(value, struct filter);
} filters SEC(".maps");

/* What the tests of a filter said at the entry of a call. */
struct answers {
	s64 number;
	u32 yes;
	/* A text could not be read: the call is recorded. */
	u32 is_unknown;
};

/* By thread id: the call that it is in, if that has a filter and is recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, THREAD_COUNT_MAX);
	__type(key, s32);
	__type(value, struct answers);
} chosen SEC(".maps");

/* By thread id: what could not be read at the entry of its call, a bit for each copy. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, THREAD_COUNT_MAX);
	__type(key, s32);
	__type(value, u64);
} unread SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, CPU_COUNT_MAX);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CPU_COUNT_MAX);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

/* What is copied of a call, and where to. */
struct job {
	u64 arguments[6];
	s64 result;
	/* Of a pointer of the program. */
	u32 word_bytes;
	/* Where in the record the next copy begins. */
	u32 at;
};

/* How far a text was compared with a pattern, and the last star so far: PATTERN_COUNT before the first one. */
struct match {
	u32 at;
	u32 element_at;
	u32 star_at;
	u32 star_from;
};

/* Where a record is put together. The verifier believes that the last copy may begin at the end of the record, so there is room behind it. */
struct scratch {
	struct job job;
	struct answers answers;
	struct match match;
	struct stamp stamp;
	u8 record[2 * RECORD_BYTES];
};

/* By CPU: a program that records a call is not interrupted by another call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPU_COUNT_MAX);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Keeps the compiler from forgetting a bound that the verifier asks for. */
#define BOUND(value, mask)                                                                                             \
	({                                                                                                             \
		asm volatile("" : "+r"(value));                                                                        \
		(value) &= (mask);                                                                                     \
	})

static __always_inline struct task_struct___piste *current(void)
{
	return (struct task_struct___piste *)bpf_get_current_task();
}

/* The table of the call that the thread is in. */
static __always_inline u32 table_of(const struct pt_regs___piste *regs)
{
#if defined(__TARGET_ARCH_x86)
	/* TS_COMPAT */
	return (BPF_CORE_READ(current(), thread_info.status) & 2) != 0;
#elif defined(__TARGET_ARCH_arm64)
	/* _TIF_32BIT */
	return (BPF_CORE_READ(current(), thread_info.flags) >> 22) & 1;
#elif defined(__TARGET_ARCH_riscv)
	/* SR_UXL_32 in SR_UXL */
	return ((regs->status >> 32) & 3) == 1;
#endif
}

/* The registers are those of the entry also at the exit. The structure lies in the kernel's memory. */
static __always_inline void read_arguments(u64 *arguments, const struct pt_regs___piste *regs, u32 table)
{
#if defined(__TARGET_ARCH_x86)
	if (table) {
		arguments[0] = (u32)regs->bx;
		arguments[1] = (u32)regs->cx;
		arguments[2] = (u32)regs->dx;
		arguments[3] = (u32)regs->si;
		arguments[4] = (u32)regs->di;
		arguments[5] = (u32)regs->bp;
		return;
	}
	arguments[0] = regs->di;
	arguments[1] = regs->si;
	arguments[2] = regs->dx;
	arguments[3] = regs->r10;
	arguments[4] = regs->r8;
	arguments[5] = regs->r9;
#elif defined(__TARGET_ARCH_arm64)
	arguments[0] = regs->orig_x0;
	arguments[1] = regs->regs[1];
	arguments[2] = regs->regs[2];
	arguments[3] = regs->regs[3];
	arguments[4] = regs->regs[4];
	arguments[5] = regs->regs[5];
#elif defined(__TARGET_ARCH_riscv)
	arguments[0] = regs->orig_a0;
	arguments[1] = regs->a1;
	arguments[2] = regs->a2;
	arguments[3] = regs->a3;
	arguments[4] = regs->a4;
	arguments[5] = regs->a5;
#endif
}

static __always_inline s64 number_of(const struct pt_regs___piste *regs)
{
#if defined(__TARGET_ARCH_x86)
	return (s64)regs->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	return regs->syscallno;
#elif defined(__TARGET_ARCH_riscv)
	return (s64)regs->a7;
#endif
}

static __always_inline struct switches *switches_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&switches, &zero);
}

/* Whether the calls of the current thread are recorded. */
static __always_inline bool is_wanted(u64 pid_tgid)
{
	s32 tid = (s32)pid_tgid, tgid = (s32)(pid_tgid >> 32);
	struct switches *set = switches_now();
	u32 cpu, *is_chosen;

	if (!set || !set->is_on)
		return false;
	if (set->selects_cpus) {
		cpu = bpf_get_smp_processor_id();
		is_chosen = bpf_map_lookup_elem(&cpus, &cpu);
		if (!is_chosen || !*is_chosen)
			return false;
	}
	if (set->is_selective && !bpf_map_lookup_elem(&tracked, &tid))
		return false;
	return !set->hides || !bpf_map_lookup_elem(&hidden, &tgid);
}

/* Whether a process with the same user may look into the current one, as ptrace(2) has it: not into programs that keep secrets, or that had more
 * rights once. */
static __always_inline bool is_dumpable(void)
{
	const struct mm_struct *memory = BPF_CORE_READ(current(), mm);
	unsigned long flags = 0;

	if (bpf_core_field_exists(struct mm_struct___number, flags))
		bpf_probe_read_kernel(&flags, sizeof flags,
		                      (const void *)memory + bpf_core_field_offset(struct mm_struct___number, flags));
	else if (bpf_core_field_exists(struct mm_struct___bits, flags))
		bpf_probe_read_kernel(&flags, sizeof flags,
		                      (const void *)memory + bpf_core_field_offset(struct mm_struct___bits, flags));
	/* MMF_DUMPABLE_MASK, SUID_DUMP_USER */
	return (flags & 3) == 1;
}

/* Whether the user may see what the current thread's arguments point to: a program with other rights may read what the user cannot. */
static __always_inline bool is_readable(void)
{
	const struct cred___piste *cred;

	if (!settings.is_of_user)
		return true;
	cred = BPF_CORE_READ(current(), cred);
	return BPF_CORE_READ(cred, uid.val) == settings.user && BPF_CORE_READ(cred, euid.val) == settings.user &&
	       BPF_CORE_READ(cred, suid.val) == settings.user && BPF_CORE_READ(cred, fsuid.val) == settings.user &&
	       is_dumpable();
}

static __always_inline u32 call_index(u32 table, s64 number)
{
	u32 index = number >= 0 && number < CALL_COUNT - 1 ? (u32)number : CALL_COUNT - 1;

	return table * CALL_COUNT + index;
}

static __always_inline u64 argument(const struct job *job, u32 index)
{
	switch (index) {
	case 0:
		return job->arguments[0];
	case 1:
		return job->arguments[1];
	case 2:
		return job->arguments[2];
	case 3:
		return job->arguments[3];
	case 4:
		return job->arguments[4];
	default:
		return job->arguments[5];
	}
}

/* Reads a pointer or a length of the program. */
static __always_inline bool read_word(const struct job *job, u64 *word, u64 from)
{
	u32 half = 0;

	if (job->word_bytes == 8)
		return bpf_probe_read_user(word, 8, (void *)from) == 0;
	if (bpf_probe_read_user(&half, 4, (void *)from) != 0)
		return false;
	*word = half;
	return true;
}

/* The bytes that a copy should have. */
static __always_inline bool size_of(const struct job *job, const struct copy *copy, u64 *bytes)
{
	u64 count = 1;
	u32 small = 0;

	switch (copy->size_from) {
	case SIZE_ARGUMENT:
		count = argument(job, copy->size_argument);
		break;
	case SIZE_BITS:
		count = ((u32)argument(job, copy->size_argument) + 8ULL * copy->bytes_each - 1) /
		        (8U * copy->bytes_each);
		break;
	case SIZE_AT_ARGUMENT:
		if (bpf_probe_read_user(&small, 4, (void *)argument(job, copy->size_argument)) != 0)
			return false;
		count = small;
		break;
	case SIZE_RESULT:
		count = job->result > 0 ? (u64)job->result : 0;
		break;
	case SIZE_IN_STRUCTURE:
		if (!read_word(job, &count, argument(job, copy->argument) + copy->size_offset))
			return false;
		break;
	case SIZE_INT_IN_STRUCTURE:
		if (bpf_probe_read_user(&small, 4, (void *)(argument(job, copy->argument) + copy->size_offset)) != 0)
			return false;
		count = small;
		break;
	default:
		break;
	}
	if (count > RECORD_BYTES)
		count = RECORD_BYTES;
	*bytes = count * copy->bytes_each;
	return true;
}

/* The room that is left for a copy. */
static __always_inline u32 room_of(const struct job *job, const struct copy *copy)
{
	u32 left = RECORD_BYTES - (job->at & MASK);

	return copy->limit_bytes < left ? copy->limit_bytes : left;
}

/* Takes bytes that were copied into the record. */
static __always_inline void take(struct job *job, u32 bytes)
{
	u32 at = job->at + bytes;

	job->at = at < RECORD_BYTES ? at : RECORD_BYTES - 1;
}

static __always_inline u32 copy_text(struct scratch *scratch, u64 from, u32 room)
{
	u32 at = scratch->job.at;
	u8 last = 0;
	long read;

	BOUND(at, MASK);
	BOUND(room, MASK);
	read = bpf_probe_read_user_str(&scratch->record[at], room, (void *)from);
	if (read <= 0)
		return STATE_UNREADABLE;
	take(&scratch->job, (u32)read);
	if ((u32)read < room)
		return STATE_WHOLE;
	/* It filled the room: with its end, or in place of what comes there. */
	if (bpf_probe_read_user(&last, 1, (void *)(from + room - 1)) == 0 && last == 0)
		return STATE_WHOLE;
	return STATE_CUT;
}

/* The functions that are not inline are those that the verifier would otherwise look at many times: in each round of a loop, or on every path to
 * a call. It looks at each of them once. */

/* Copies the text whose address is at `pointer`: STATE_WHOLE, also where some of it had no room; STATE_ABSENT if there is no text, and STATE_CUT if
 * there is no room left. */
__noinline int copy_next_text(u32 cpu, u64 pointer, u32 end)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	u64 text = 0;

	if (!scratch || !read_word(&scratch->job, &text, pointer))
		return STATE_UNREADABLE;
	if (!text)
		return STATE_ABSENT;
	if (scratch->job.at >= end)
		return STATE_CUT;
	return copy_text(scratch, text, end - scratch->job.at) == STATE_UNREADABLE ? STATE_UNREADABLE : STATE_WHOLE;
}

/* The count, then the texts, each with its zero byte. */
__noinline int copy_texts(u32 cpu, u64 from, u32 room)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	u32 begin, end, index;
	int state = STATE_CUT;

	if (!scratch)
		return STATE_UNREADABLE;
	begin = scratch->job.at;
	end = begin + room;
	take(&scratch->job, sizeof(u32));
	for (index = 0; index < TEXT_COUNT_MAX; index++) {
		int copied = copy_next_text(cpu, from + (u64)index * scratch->job.word_bytes, end);

		if (copied != STATE_WHOLE) {
			state = copied == STATE_ABSENT ? STATE_WHOLE : copied;
			break;
		}
	}
	BOUND(begin, MASK);
	__builtin_memcpy(&scratch->record[begin], &index, sizeof(index));
	return state;
}

/* Copies what an element of a vector points to, as far as there is room. */
__noinline int copy_element(u32 cpu, u64 element, u32 end)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	u64 base = 0, length = 0;
	u32 at, left, bytes;

	if (!scratch || !read_word(&scratch->job, &base, element) ||
	    !read_word(&scratch->job, &length, element + scratch->job.word_bytes))
		return STATE_UNREADABLE;
	at = scratch->job.at;
	left = at < end ? end - at : 0;
	bytes = length < left ? (u32)length : left;
	BOUND(at, MASK);
	BOUND(bytes, MASK);
	if (bpf_probe_read_user(&scratch->record[at], bytes, (void *)base) != 0)
		return STATE_UNREADABLE;
	take(&scratch->job, bytes);
	return bytes < length ? STATE_CUT : STATE_WHOLE;
}

__noinline int copy_elements(u32 cpu, u64 from, u32 count, u32 room)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	u32 end, index;

	if (!scratch)
		return STATE_UNREADABLE;
	end = scratch->job.at + room;
	for (index = 0; index < VECTOR_COUNT_MAX; index++) {
		int copied;

		if (index >= count)
			return STATE_WHOLE;
		copied = copy_element(cpu, from + 2ULL * index * scratch->job.word_bytes, end);
		if (copied != STATE_WHOLE)
			return copied;
	}
	return index < count ? STATE_CUT : STATE_WHOLE;
}

static __always_inline u32 copy_vector(struct scratch *scratch, u32 cpu, const struct copy *copy, u64 from, u32 room)
{
	u32 element_bytes = 2 * scratch->job.word_bytes, state;
	bool is_result_last = false;
	u64 vector_bytes;

	if (!size_of(&scratch->job, copy, &vector_bytes))
		return STATE_UNREADABLE;
	if (copy->flags & COPY_UP_TO_RESULT && scratch->job.result <= (s64)room) {
		is_result_last = true;
		room = scratch->job.result > 0 ? (u32)scratch->job.result : 0;
	}
	state = (u32)copy_elements(cpu, from, (u32)vector_bytes / element_bytes, room);
	/* It ends where the call itself stopped: that is all. */
	return state == STATE_CUT && is_result_last ? STATE_WHOLE : state;
}

static __always_inline u32 copy_bytes(struct scratch *scratch, const struct copy *copy, u64 from, u32 room)
{
	u32 at = scratch->job.at, length;
	u64 wanted;

	if (!size_of(&scratch->job, copy, &wanted))
		return STATE_UNREADABLE;
	length = wanted < room ? (u32)wanted : room;
	BOUND(at, MASK);
	BOUND(length, MASK);
	if (bpf_probe_read_user(&scratch->record[at], length, (void *)from) != 0)
		return STATE_UNREADABLE;
	take(&scratch->job, length);
	return length < wanted ? STATE_CUT : STATE_WHOLE;
}

/* Copies one thing behind the record of a CPU, and says what became of it. */
__noinline int copy_one(u32 cpu, u32 call_index, u32 index)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	struct call *call = bpf_map_lookup_elem(&calls, &call_index);
	const struct copy *copy;
	u64 from;
	u32 room;

	/* Otherwise the compiler forgets the bound. */
	asm volatile("" : "+r"(index));
	if (!scratch || !call || index >= COPY_COUNT)
		return STATE_ABSENT;
	copy = &call->copies[index];
	from = argument(&scratch->job, copy->argument);
	if (from && copy->flags & COPY_INDIRECT && !read_word(&scratch->job, &from, from + copy->pointer_offset))
		return STATE_UNREADABLE;
	if (!from)
		return STATE_ABSENT;
	room = room_of(&scratch->job, copy);
	switch (copy->kind) {
	case COPY_TEXT:
		return copy_text(scratch, from, room);
	case COPY_TEXTS:
		return copy_texts(cpu, from, room);
	case COPY_VECTOR:
		return (int)copy_vector(scratch, cpu, copy, from, room);
	default:
		return copy_bytes(scratch, copy, from, room);
	}
}

enum answer {
	ANSWER_NO,
	ANSWER_YES,
	ANSWER_UNKNOWN,
};

/* As much as is compared of a text: a pattern that takes longer is not decided. */
#define STEPS_MAX     1024
#define STEPS_AT_ONCE 32
/* Where the name of the thread is put when a filter asks for it: no record is so long. */
#define COMM_BYTES 16
#define COMM_AT    (RECORD_BYTES - COMM_BYTES)

/* 1 if they are equal, or if the first one is less, of numbers below 1 << 31. Without a branch, or the verifier would follow every way through the
 * loop below. */
static __always_inline u32 is_equal(u32 one, u32 other)
{
	u32 difference = one ^ other, negated = -difference;

	asm volatile("" : "+r"(negated));
	return (difference | negated) >> 31 ^ 1;
}

static __always_inline u32 is_less(u32 one, u32 other)
{
	u32 difference = one - other;

	asm volatile("" : "+r"(difference));
	return difference >> 31;
}

/* `one` if the mask has all bits, `other` if it has none. */
static __always_inline u32 selected(u32 mask, u32 one, u32 other)
{
	u32 difference = (one ^ other) & mask;

	asm volatile("" : "+r"(difference));
	return other ^ difference;
}

/* Compares some more of a text with a pattern: ANSWER_UNKNOWN if that does not decide it. A star takes as little as it can; when that turns out to be
 * too little, it takes a byte more, from where the last star began. */
__noinline int match_more(u32 cpu, u32 filter_index, u32 test_index, u32 place)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	struct filter *filter = bpf_map_lookup_elem(&filters, &filter_index);
	u32 at, element_at, star_at, star_from, length = place >> 16, from = place & MASK, count;
	const struct test *test;

	asm volatile("" : "+r"(test_index));
	if (!scratch || !filter || test_index >= TEST_COUNT)
		return ANSWER_UNKNOWN;
	test = &filter->tests[test_index];
	count = test->pattern_count;
	at = scratch->match.at;
	element_at = scratch->match.element_at;
	star_at = scratch->match.star_at;
	star_from = scratch->match.star_from;
	for (u32 step = 0; step < STEPS_AT_ONCE; step++) {
		u32 element = test->pattern[element_at & (PATTERN_COUNT - 1)], position = (from + at) & MASK;
		u32 byte = scratch->record[position] & -is_less(at, length);
		u32 is_in_pattern = is_less(element_at, count),
		    is_star = is_in_pattern & is_equal(element, ELEMENT_STAR);
		u32 is_same = is_equal(element, ELEMENT_ANY) | is_equal(element, byte);
		u32 is_end = is_equal(byte, 0), is_match = is_in_pattern & is_same & ~is_star & ~is_end & 1;
		u32 star = -is_star, match = -is_match, back = ~(star | match),
		    is_over = back & is_equal(star_at, PATTERN_COUNT);

		asm volatile("" : "+r"(is_over));

		if (is_star & is_equal(element_at + 1, count))
			return ANSWER_YES;
		if (is_end & ~is_star & 1)
			return (int)is_equal(element_at, count);
		if (is_over)
			return ANSWER_NO;
		star_from = selected(star, at, star_from + (back & 1));
		at = selected(back, star_from, at + (match & 1));
		star_at = selected(star, element_at, star_at);
		element_at = selected(back, star_at, element_at) + 1;
	}
	scratch->match.at = at;
	scratch->match.element_at = element_at;
	scratch->match.star_at = star_at;
	scratch->match.star_from = star_from;
	return ANSWER_UNKNOWN;
}

/* Whether a text is like a pattern from its element `element_at` on. */
__noinline int is_like(u32 cpu, u32 filter_index, u32 test_index, u32 place, u32 element_at)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	int answer = ANSWER_UNKNOWN;

	if (!scratch)
		return ANSWER_UNKNOWN;
	scratch->match.at = 0;
	scratch->match.element_at = element_at;
	scratch->match.star_at = PATTERN_COUNT;
	scratch->match.star_from = 0;
	for (u32 step = 0; step < STEPS_MAX && answer == ANSWER_UNKNOWN; step += STEPS_AT_ONCE)
		answer = match_more(cpu, filter_index, test_index, place);
	return answer;
}

static __always_inline u32 place_of(const struct entry *entry, u32 index)
{
	switch (index) {
	case 0:
		return entry->places[0];
	case 1:
		return entry->places[1];
	case 2:
		return entry->places[2];
	case 3:
		return entry->places[3];
	case 4:
		return entry->places[4];
	default:
		return entry->places[5];
	}
}

static __always_inline u64 number_at(const u8 *from, u32 bytes)
{
	u64 number = 0;

	switch (bytes) {
	case 1:
		return *from;
	case 2:
		return from[0] | from[1] << 8;
	case 4:
		__builtin_memcpy(&number, from, 4);
		return number;
	default:
		__builtin_memcpy(&number, from, 8);
		return number;
	}
}

static __always_inline u32 compare(const struct test *test, u64 number)
{
	u32 unused_bits = 64 - 8 * (test->bytes & 15);

	unused_bits &= 63;
	if (test->is_signed) {
		s64 value = (s64)test->value;
		s64 signed_number = (s64)(number << unused_bits) >> unused_bits;

		signed_number &= (s64)test->mask;
		switch (test->comparison) {
		case COMPARE_LESS:
			return signed_number < value;
		case COMPARE_GREATER:
			return signed_number > value;
		default:
			number = (u64)signed_number;
			break;
		}
	} else {
		number = number << unused_bits >> unused_bits & test->mask;
	}
	switch (test->comparison) {
	case COMPARE_EQUAL:
		return number == test->value;
	case COMPARE_LESS:
		return number < test->value;
	case COMPARE_GREATER:
		return number > test->value;
	default:
		return (number & test->value) != 0;
	}
}

static __always_inline u16 family_of(const struct scratch *scratch, u32 place)
{
	u32 from = place & MASK;
	u16 family = 0;

	__builtin_memcpy(&family, &scratch->record[from], sizeof family);
	return place >> 16 >= sizeof family ? family : 0;
}

/* The answer of a test that is made at the entry. */
__noinline int answer_of(u32 cpu, u32 filter_index, u32 test_index)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	struct filter *filter = bpf_map_lookup_elem(&filters, &filter_index);
	const struct test *test;
	struct entry *entry;
	u32 place = 0, from, port;
	u16 family;

	asm volatile("" : "+r"(test_index));
	if (!scratch || !filter || test_index >= TEST_COUNT)
		return ANSWER_UNKNOWN;
	test = &filter->tests[test_index];
	entry = (struct entry *)scratch->record;
	if (test->subject >= SUBJECT_MEMBER && test->subject <= SUBJECT_PATH) {
		/* What is absent is empty, or 0, in the trace. */
		if ((entry->states >> (2 * (test->index & 7)) & 3) == STATE_UNREADABLE)
			return ANSWER_UNKNOWN;
		place = place_of(entry, test->index);
	}
	switch (test->subject) {
	case SUBJECT_RESULT:
		/* Nobody asks for it yet. */
		return ANSWER_NO;
	case SUBJECT_ARGUMENT:
		return (int)compare(test, argument(&scratch->job, test->index));
	case SUBJECT_TID:
		return (int)compare(test, (u32)entry->head.tid);
	case SUBJECT_CPU:
		return (int)compare(test, cpu);
	case SUBJECT_TEXT:
		return is_like(cpu, filter_index, test_index, place, 0);
	case SUBJECT_PATH:
		/* Other addresses have an empty one. */
		if (family_of(scratch, place) != 1 || place >> 16 <= 2)
			return is_like(cpu, filter_index, test_index, 0, 0);
		place = place - (2 << 16) + 2;
		if (scratch->record[place & MASK] || place >> 16 == 1)
			return is_like(cpu, filter_index, test_index, place, 0);
		/* An abstract name begins with a zero byte, and is shown with an @. */
		if (test->pattern[0] == ELEMENT_STAR)
			return ANSWER_UNKNOWN;
		if (test->pattern[0] != '@' && test->pattern[0] != ELEMENT_ANY)
			return ANSWER_NO;
		return is_like(cpu, filter_index, test_index, place - (1 << 16) + 1, 1);
	case SUBJECT_COMM:
		/* Behind what a record may have. */
		bpf_get_current_comm(&scratch->record[COMM_AT], COMM_BYTES);
		return is_like(cpu, filter_index, test_index, COMM_BYTES << 16 | COMM_AT, 0);
	case SUBJECT_PORT:
		from = place & MASK;
		family = family_of(scratch, place);
		port = (u32)scratch->record[from + 2] << 8 | scratch->record[from + 3];
		/* AF_INET and AF_INET6; the port is big-endian. */
		return (int)compare(test, family == 2 || family == 10 ? port : 0);
	default:
		from = ((place & MASK) + test->offset) & MASK;
		/* What the copy does not have is 0 in the trace. */
		if (test->offset + test->bytes > place >> 16)
			return (int)compare(test, 0);
		return (int)compare(test, number_at(&scratch->record[from], test->bytes));
	}
}

/* The answer of a test that is made at the exit. */
__noinline int answer_of_result(u32 filter_index, u32 test_index, u64 result)
{
	struct filter *filter = bpf_map_lookup_elem(&filters, &filter_index);

	asm volatile("" : "+r"(test_index));
	if (!filter || test_index >= TEST_COUNT)
		return ANSWER_NO;
	return (int)compare(&filter->tests[test_index], result);
}

/* Whether the answers mean that an entry, or an exit, is recorded. */
__noinline int decide(u32 filter_index, u32 is_exit, u32 yes)
{
	struct filter *filter = bpf_map_lookup_elem(&filters, &filter_index);
	const struct decider *decider;
	u32 at;

	if (!filter)
		return true;
	decider = is_exit ? &filter->exit : &filter->entry;
	at = decider->first;
	for (u32 step = 0; step <= TEST_COUNT && at < TEST_COUNT; step++) {
		const struct jump *jump;
		u32 test = at;

		BOUND(test, TEST_COUNT - 1);
		jump = &decider->jumps[test];
		at = selected(-(yes >> at & 1), jump->yes, jump->no);
	}
	return at != DECISION_DROP;
}

static __always_inline void count_lost(u32 cpu)
{
	struct counts *count = bpf_map_lookup_elem(&counts, &cpu);

	if (count)
		count->lost++;
}

/* Whether the entry in the record is recorded. If so, its exit finds it, where exits are wanted. */
__noinline int passes_entry(u32 cpu, u32 filter_index, u32 is_exit_wanted)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	struct filter *filter = bpf_map_lookup_elem(&filters, &filter_index);
	u32 yes = 0, unknown = 0;
	const struct head *head;
	s32 tid;

	if (!scratch || !filter)
		return true;
	for (u32 index = 0; index < TEST_COUNT; index++) {
		u32 answer;

		if (index >= filter->test_count)
			break;
		answer = (u32)answer_of(cpu, filter_index, index);
		/* Without a branch, or the verifier would follow all ways to answer. */
		yes |= is_equal(answer, ANSWER_YES) << index;
		unknown |= is_equal(answer, ANSWER_UNKNOWN);
	}
	if (!unknown && !decide(filter_index, 0, yes))
		return false;
	if (!is_exit_wanted)
		return true;
	head = (const struct head *)scratch->record;
	tid = head->tid;
	scratch->answers.number = head->number;
	scratch->answers.yes = yes;
	scratch->answers.is_unknown = unknown;
	if (!has_chosen)
		has_chosen = 1;
	/* Without memory for that, the exit is not recorded. */
	if (bpf_map_update_elem(&chosen, &tid, &scratch->answers, BPF_ANY) != 0)
		count_lost(cpu);
	return true;
}

/* Whether the exit of a call with a filter is recorded. */
static __always_inline bool passes_exit(u32 filter_index, s32 tid, s64 number, s64 result)
{
	struct filter *filter = bpf_map_lookup_elem(&filters, &filter_index);
	struct answers *found = bpf_map_lookup_elem(&chosen, &tid);
	struct answers answers;

	if (!filter || !found)
		return false;
	answers = *found;
	bpf_map_delete_elem(&chosen, &tid);
	/* A call that never returned left it otherwise. */
	if (answers.number != number)
		return false;
	if (answers.is_unknown)
		return true;
	for (u32 index = 0; index < TEST_COUNT; index++) {
		if (index >= filter->test_count)
			break;
		if (filter->tests[index].subject == SUBJECT_RESULT)
			answers.yes |= ((u32)answer_of_result(filter_index, index, (u64)result) & 1) << index;
	}
	return decide(filter_index, 1, answers.yes);
}

/* Somebody who waits for records is woken when there are many; and only once. */
static __always_inline u64 wake_flag(void *ring, u32 bytes)
{
	u64 before = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	return before < settings.wake_bytes && before + bytes + 8 >= settings.wake_bytes ? BPF_RB_FORCE_WAKEUP
	                                                                                 : BPF_RB_NO_WAKEUP;
}

static __always_inline void emit(struct scratch *scratch, u32 cpu, u32 bytes)
{
	void *ring = bpf_map_lookup_elem(&rings, &cpu);

	BOUND(bytes, MASK);
	bytes += sizeof(struct stamp);
	if (!ring || bpf_ringbuf_output(ring, &scratch->stamp, bytes, wake_flag(ring, bytes)) != 0)
		count_lost(cpu);
}

static __always_inline void fill_head(struct head *head, u16 type, u32 table, u64 pid_tgid, s64 number)
{
	head->type = type;
	head->table = (u8)table;
	head->unused = 0;
	head->tid = (s32)pid_tgid;
	head->number = number;
}

/* Copies what is due, of the copies that may be made then: masks with a bit for each. Returns what could not be read, and notes where
 * everything is. */
static __always_inline u64 copy_all(struct scratch *scratch, u32 cpu, u32 index_of_call, u32 possible, u32 due,
                                    u32 *places, u16 *states)
{
	bool is_read = is_readable();
	u64 unreadable = 0;
	u32 all = 0;

	for (u32 index = 0; index < COPY_COUNT; index++) {
		u32 begin = scratch->job.at, state = possible >> index & 1 ? STATE_ABSENT : STATE_WHOLE;

		if (due >> index & 1)
			state = is_read ? (u32)copy_one(cpu, index_of_call, index) & 3 : STATE_UNREADABLE;
		places[index] = (scratch->job.at - begin) << 16 | (begin & MASK);
		if (is_read && state == STATE_UNREADABLE)
			unreadable |= 1ULL << index;
		all |= state << (2 * index);
	}
	*states = (u16)all;
	return unreadable;
}

SEC("tp_btf/sys_enter")
int record_entry(u64 *context)
{
	const struct pt_regs___piste *regs = (const struct pt_regs___piste *)context[0];
	u64 pid_tgid = bpf_get_current_pid_tgid(), unreadable = 0;
	s64 number = (s64)context[1];
	u32 cpu = bpf_get_smp_processor_id(), bytes = offsetof(struct entry, places), table, index_of_call;
	s32 tid = (s32)pid_tgid;
	struct scratch *scratch;
	struct entry *entry;
	struct call *call;

	if (!is_wanted(pid_tgid))
		return 0;
	table = table_of(regs);
	index_of_call = call_index(table, number);
	call = bpf_map_lookup_elem(&calls, &index_of_call);
	/* A filter of exits asks about arguments, too. */
	if (!call || !(call->wanted & WANTED_ENTRY || call->filter))
		return 0;
	scratch = bpf_map_lookup_elem(&scratches, &cpu);
	if (!scratch)
		return 0;
	scratch->stamp.time_ns = bpf_ktime_get_ns();
	entry = (struct entry *)scratch->record;
	fill_head(&entry->head, settings.entry_type, table, pid_tgid, number);
	read_arguments(entry->arguments, regs, table);
	__builtin_memcpy(scratch->job.arguments, entry->arguments, sizeof(entry->arguments));
	if (call->at_entry) {
		scratch->job.at = sizeof(struct entry);
		scratch->job.word_bytes = table ? 4 : 8;
		unreadable = copy_all(scratch, cpu, index_of_call, call->at_entry, call->at_entry, entry->places,
		                      &entry->states);
		bytes = scratch->job.at;
	}
	if (call->filter && !passes_entry(cpu, call->filter - 1U, call->wanted & WANTED_EXIT))
		return 0;
	if (!(call->wanted & WANTED_ENTRY))
		return 0;
	if (unreadable && call->wanted & WANTED_EXIT) {
		unreadable |= (u64)number << 8;
		bpf_map_update_elem(&unread, &tid, &unreadable, BPF_ANY);
		if (!has_unread)
			has_unread = 1;
	}
	emit(scratch, cpu, bytes);
	return 0;
}

/* What could not be read at the entry of the call that ends. */
static __always_inline u32 unread_copies(s32 tid, s64 number)
{
	u64 *noted = has_unread ? bpf_map_lookup_elem(&unread, &tid) : NULL;
	u32 copies;

	if (!noted)
		return 0;
	/* A call that never returned left it otherwise. */
	copies = *noted >> 8 == (u64)number ? *noted & 0xff : 0;
	bpf_map_delete_elem(&unread, &tid);
	return copies;
}

SEC("tp_btf/sys_exit")
int record_exit(u64 *context)
{
	const struct pt_regs___piste *regs = (const struct pt_regs___piste *)context[0];
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 cpu = bpf_get_smp_processor_id(), bytes = offsetof(struct exit, places), table, index_of_call, possible,
	    late = 0;
	struct scratch *scratch;
	struct exit *exit;
	struct call *call;
	s64 number;

	if (!is_wanted(pid_tgid))
		return 0;
	number = number_of(regs);
	table = table_of(regs);
	index_of_call = call_index(table, number);
	call = bpf_map_lookup_elem(&calls, &index_of_call);
	if (!call || !(call->wanted & WANTED_EXIT))
		return 0;
	if (call->filter && !passes_exit(call->filter - 1U, (s32)pid_tgid, number, (s64)context[1]))
		return 0;
	scratch = bpf_map_lookup_elem(&scratches, &cpu);
	if (!scratch)
		return 0;
	scratch->stamp.time_ns = bpf_ktime_get_ns();
	exit = (struct exit *)scratch->record;
	fill_head(&exit->head, settings.exit_type, table, pid_tgid, number);
	exit->result = (s64)context[1];
	possible = call->at_exit | call->at_success;
	if (call->at_entry)
		late = unread_copies((s32)pid_tgid, number);
	if (late) {
		exit->head.type = settings.late_type;
		possible |= call->at_entry;
	}
	if (possible) {
		u32 due = late | call->at_exit | (exit->result >= 0 ? call->at_success : 0);

		read_arguments(scratch->job.arguments, regs, table);
		scratch->job.at = sizeof(struct exit);
		scratch->job.word_bytes = table ? 4 : 8;
		scratch->job.result = exit->result;
		copy_all(scratch, cpu, index_of_call, possible, due, exit->places, &exit->states);
		bytes = scratch->job.at;
	}
	emit(scratch, cpu, bytes);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int follow(u64 *context)
{
	const struct task_struct___piste *parent = (const struct task_struct___piste *)context[0];
	const struct task_struct___piste *child = (const struct task_struct___piste *)context[1];
	u32 cpu = bpf_get_smp_processor_id();
	s32 parent_tid = parent->pid, tid = child->pid;
	struct switches *set = switches_now();
	struct counts *count;
	u8 one = 1;

	if (!set || !set->follows || !bpf_map_lookup_elem(&tracked, &parent_tid))
		return 0;
	if (bpf_map_update_elem(&tracked, &tid, &one, BPF_ANY) != 0) {
		count = bpf_map_lookup_elem(&counts, &cpu);
		if (count)
			count->untracked++;
	}
	return 0;
}

/* Another thread may get the number now. */
SEC("tp_btf/sched_process_free")
int forget(u64 *context)
{
	const struct task_struct___piste *task = (const struct task_struct___piste *)context[0];
	struct switches *set = switches_now();
	s32 tid = task->pid;

	if (set && set->is_selective)
		bpf_map_delete_elem(&tracked, &tid);
	if (has_unread)
		bpf_map_delete_elem(&unread, &tid);
	if (has_chosen)
		bpf_map_delete_elem(&chosen, &tid);
	return 0;
}

char licence[] SEC("license") = "Dual MIT/GPL";
