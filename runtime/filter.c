/* SPDX-License-Identifier: MIT */
/*
 * Filters: pisted's instructions (piste/abi/filter.h) are checked once, kept for good, and executed on the fields of events.
 *
 * A filter is never freed or changed, so threads that execute it need no protection. Equal filters are kept once; a program whose
 * daemon sends more than KEPT_BYTES_MAX of them refuses the next one.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <piste/abi/event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define KEPT_BYTES_MAX (1u << 20)

struct kept_filter {
	struct kept_filter *next;
	size_t bytes;
	bool has_range;
	struct piste_filter_range range;
	struct piste_filter filter;
};

static const struct piste_instruction *instructions_of(const struct piste_filter *filter)
{
	return (const struct piste_instruction *)(filter + 1);
}

static const uint8_t *texts_of(const struct piste_filter *filter)
{
	return (const uint8_t *)(instructions_of(filter) + filter->instruction_count);
}

static uint32_t operand_begin(const struct piste_instruction *instruction)
{
	return (uint32_t)instruction->operand;
}

static uint32_t operand_bytes(const struct piste_instruction *instruction)
{
	return (uint32_t)(instruction->operand >> 32);
}

/* ---- Checking ---- */

/* 0: there is no such element. */
static inline uint32_t element_bytes(uint8_t kind)
{
	static const uint8_t bytes[] = {
	        [PISTE_ELEMENT_INT8] = 1,    [PISTE_ELEMENT_INT16] = 2,  [PISTE_ELEMENT_INT32] = 4,
	        [PISTE_ELEMENT_INT64] = 8,   [PISTE_ELEMENT_UINT8] = 1,  [PISTE_ELEMENT_UINT16] = 2,
	        [PISTE_ELEMENT_UINT32] = 4,  [PISTE_ELEMENT_UINT64] = 8, [PISTE_ELEMENT_FLOAT32] = 4,
	        [PISTE_ELEMENT_FLOAT64] = 8,
	};

	return kind < sizeof(bytes) ? bytes[kind] : 0;
}

static bool is_signed(uint8_t kind)
{
	return kind <= PISTE_ELEMENT_INT64;
}

static bool is_text(uint8_t kind)
{
	return kind == PISTE_FILTER_STRING || kind == PISTE_FILTER_COUNTED;
}

static bool is_comparison(uint8_t comparison)
{
	return comparison >= PISTE_COMPARE_LESS && comparison <= PISTE_COMPARE_BITS && comparison != 7;
}

static bool names_text(const struct piste_filter *filter, const struct piste_instruction *instruction)
{
	return (uint64_t)operand_begin(instruction) + operand_bytes(instruction) <= filter->text_bytes;
}

/* Bytes of the part of a pattern that begins with `part`; 0: there is no such part. */
static uint32_t part_bytes(uint8_t part)
{
	switch (part) {
	case PISTE_PATTERN_ANY:
	case PISTE_PATTERN_STAR:
		return 1;
	case PISTE_PATTERN_BYTE:
		return 2;
	case PISTE_PATTERN_IN:
	case PISTE_PATTERN_NOT_IN:
		return 17;
	default:
		return 0;
	}
}

static bool names_pattern(const struct piste_filter *filter, const struct piste_instruction *instruction)
{
	uint32_t at = operand_begin(instruction), end = at + operand_bytes(instruction);

	if (!names_text(filter, instruction))
		return false;
	while (at < end) {
		uint32_t bytes = part_bytes(texts_of(filter)[at]);

		if (bytes == 0 || bytes > end - at)
			return false;
		at += bytes;
	}
	return true;
}

/* The kinds of contexts that programs know without asking anybody: no more is needed for filters. */
static bool is_other_context(const struct piste_instruction *instruction)
{
	return instruction->offset >= PISTE_CONTEXT_VPID && instruction->offset <= PISTE_CONTEXT_USAGE &&
	       instruction->offset != PISTE_CONTEXT_IP && instruction->offset != PISTE_CONTEXT_PROCNAME &&
	       (instruction->offset != PISTE_CONTEXT_USAGE || instruction->operand <= PISTE_USAGE_LAST);
}

/* How many values an instruction takes from the stack, and how many it puts there. */
static bool stack_use(const struct piste_filter *filter, const struct piste_instruction *instruction, uint32_t *taken,
                      uint32_t *put)
{
	uint8_t kind = instruction->kind;

	*taken = 0;
	*put = 1;
	switch (instruction->opcode) {
	case PISTE_FILTER_FIELD:
	case PISTE_FILTER_ELEMENT:
		return element_bytes(kind) != 0;
	case PISTE_FILTER_TEXT:
		return is_text(kind);
	case PISTE_FILTER_CONTEXT:
		return (kind >= PISTE_FILTER_VTID && kind <= PISTE_FILTER_COMM) ||
		       (kind == PISTE_FILTER_OTHER && is_other_context(instruction));
	case PISTE_FILTER_SIGNED:
	case PISTE_FILTER_UNSIGNED:
	case PISTE_FILTER_FLOAT:
		return true;
	case PISTE_FILTER_CONSTANT:
		return names_text(filter, instruction);
	case PISTE_FILTER_BITS:
		*taken = 2;
		return kind <= PISTE_BITS_SHIFT_RIGHT;
	}
	*put = 0;
	*taken = 1;
	switch (instruction->opcode) {
	case PISTE_FILTER_COMPARE:
		*taken = 2;
		return is_comparison(instruction->comparison);
	case PISTE_FILTER_COMPARE_FIELD:
		*taken = 0;
		return is_comparison(instruction->comparison) && kind >= PISTE_ELEMENT_INT8 &&
		       kind <= PISTE_ELEMENT_UINT64 && instruction->end > instruction->offset &&
		       instruction->end - instruction->offset == element_bytes(kind);
	case PISTE_FILTER_LIKE:
	case PISTE_FILTER_UNLIKE:
		return names_pattern(filter, instruction);
	default:
		return instruction->opcode == PISTE_FILTER_EXISTS;
	}
}

static bool is_test(const struct piste_instruction *instruction)
{
	return instruction->opcode >= PISTE_FILTER_COMPARE;
}

static bool leads_on(const struct piste_filter *filter, uint32_t index, uint32_t target)
{
	return target == PISTE_FILTER_ACCEPT || target == PISTE_FILTER_REJECT ||
	       (target > index && target < filter->instruction_count);
}

/* A test finds exactly its operands on the stack, so the stack is empty wherever a test leads to. */
static bool is_valid(const struct piste_filter *filter, size_t bytes)
{
	uint32_t count, place_count = 1, depth = 0, index = 0;

	if (bytes < sizeof(*filter) || bytes > PISTE_FILTER_BYTES_MAX)
		return false;
	count = filter->instruction_count;
	if (count == 0 || count > PISTE_FILTER_INSTRUCTION_COUNT_MAX ||
	    filter->text_bytes > PISTE_FILTER_TEXT_BYTES_MAX ||
	    bytes != sizeof(*filter) + count * sizeof(struct piste_instruction) + filter->text_bytes)
		return false;
	for (; index < count && instructions_of(filter)[index].opcode == PISTE_FILTER_PLACE; index++) {
		const struct piste_instruction *instruction = &instructions_of(filter)[index];

		if (instruction->place >= place_count || place_count >= PISTE_FILTER_PLACE_COUNT_MAX ||
		    (element_bytes(instruction->kind) == 0 && !is_text(instruction->kind)))
			return false;
		place_count++;
	}
	for (; index < count; index++) {
		const struct piste_instruction *instruction = &instructions_of(filter)[index];
		uint32_t taken, put;

		if (!stack_use(filter, instruction, &taken, &put) || taken > depth)
			return false;
		depth += put - taken;
		if (depth > PISTE_FILTER_DEPTH_MAX)
			return false;
		if (is_test(instruction) && (depth != 0 || !leads_on(filter, index, instruction->if_true) ||
		                             !leads_on(filter, index, instruction->if_false)))
			return false;
		if (instruction->opcode <= PISTE_FILTER_TEXT && instruction->place >= place_count)
			return false;
	}
	return is_test(&instructions_of(filter)[count - 1]);
}

/* False: the first test of the filter is another one, or goes on where it fails. */
static bool find_range(const struct piste_filter *filter, struct piste_filter_range *range)
{
	const struct piste_instruction *first = instructions_of(filter);
	uint64_t operand = first->operand, smallest = 0, greatest = UINT64_MAX;

	if (first->opcode != PISTE_FILTER_COMPARE_FIELD || first->if_false != PISTE_FILTER_REJECT)
		return false;
	if (is_signed(first->kind)) {
		smallest = (uint64_t)INT64_MIN;
		greatest = INT64_MAX;
	}
	*range = (struct piste_filter_range){operand, 0, first->offset, first->end, first->kind, 0, {0}};
	switch (first->comparison) {
	case PISTE_COMPARE_EQUAL:
		return true;
	case PISTE_COMPARE_NOT_EQUAL:
		range->is_inverted = 1;
		return true;
	case PISTE_COMPARE_LESS:
		range->first = smallest;
		range->others = operand - smallest - 1;
		return operand != smallest;
	case PISTE_COMPARE_LESS_OR_EQUAL:
		range->first = smallest;
		range->others = operand - smallest;
		return true;
	case PISTE_COMPARE_GREATER:
		range->first = operand + 1;
		range->others = greatest - operand - 1;
		return operand != greatest;
	case PISTE_COMPARE_GREATER_OR_EQUAL:
		range->others = greatest - operand;
		return true;
	default:
		return false;
	}
}

const struct piste_filter_range *piste_filter_first_range(const struct piste_filter *filter)
{
	const struct kept_filter *kept =
	        (const struct kept_filter *)((const uint8_t *)filter - offsetof(struct kept_filter, filter));

	return kept->has_range ? &kept->range : NULL;
}

const struct piste_filter *piste_filter_keep(const void *bytes, size_t byte_count)
{
	static struct kept_filter *first;
	static size_t kept_bytes;
	struct kept_filter *kept;

	for (kept = first; kept; kept = kept->next)
		if (kept->bytes == byte_count && memcmp(&kept->filter, bytes, byte_count) == 0)
			return &kept->filter;
	if (!is_valid(bytes, byte_count) || byte_count > KEPT_BYTES_MAX - kept_bytes)
		return NULL;
	kept = piste_take_memory(offsetof(struct kept_filter, filter) + byte_count);
	if (!kept)
		return NULL;
	kept_bytes += byte_count;
	kept->bytes = byte_count;
	memcpy(&kept->filter, bytes, byte_count);
	kept->has_range = find_range(&kept->filter, &kept->range);
	kept->next = first;
	first = kept;
	return &kept->filter;
}

/* ---- Executing ---- */

struct value {
	enum { NOTHING, INTEGER, FLOAT, TEXT } kind;
	bool is_negative;
	uint64_t bits; /* Of the integer or the double; bytes of a text. */
	const uint8_t *text;
};

/* What a filter looks at. */
struct subject {
	const uint8_t *fields;
	uint64_t bytes;
	uint64_t places[PISTE_FILTER_PLACE_COUNT_MAX];
	uint8_t comm[16];
	uint8_t other[PISTE_CONTEXT_TEXT_BYTES]; /* A context. Only one of them is a text. */
};

static struct value nothing(void)
{
	return (struct value){NOTHING, false, 0, NULL};
}

static struct value signed_value(int64_t integer)
{
	return (struct value){INTEGER, integer < 0, (uint64_t)integer, NULL};
}

static struct value unsigned_value(uint64_t integer)
{
	return (struct value){INTEGER, false, integer, NULL};
}

static struct value float_value(double number)
{
	struct value value = {FLOAT, false, 0, NULL};

	memcpy(&value.bits, &number, sizeof(number));
	return value;
}

static struct value text_value(const uint8_t *text, uint64_t bytes)
{
	return (struct value){TEXT, false, bytes, text};
}

/* Of fields, which are not aligned. */
#define DEFINE_LOAD(type)                                                                                              \
	static type load_##type(const uint8_t *bytes)                                                                  \
	{                                                                                                              \
		type loaded;                                                                                           \
                                                                                                                       \
		memcpy(&loaded, bytes, sizeof(loaded));                                                                \
		return loaded;                                                                                         \
	}
DEFINE_LOAD(int32_t)
DEFINE_LOAD(uint32_t)
DEFINE_LOAD(uint64_t)
DEFINE_LOAD(float)
DEFINE_LOAD(double)

static bool is_within(const struct subject *subject, uint64_t at, uint64_t bytes)
{
	return at <= subject->bytes && bytes <= subject->bytes - at;
}

static struct value element_at(const struct subject *subject, uint8_t kind, uint64_t at)
{
	const uint8_t *bytes = subject->fields + at;

	if (!is_within(subject, at, element_bytes(kind)))
		return nothing();
	if (kind == PISTE_ELEMENT_FLOAT32)
		return float_value(load_float(bytes));
	if (kind == PISTE_ELEMENT_FLOAT64)
		return float_value(load_double(bytes));
	return is_signed(kind) ? signed_value((int64_t)piste_filter_integer(bytes, kind))
	                       : unsigned_value(piste_filter_integer(bytes, kind));
}

/* Number of elements or bytes in front of a sequence or a text. */
static uint64_t count_at(const struct subject *subject, uint64_t at)
{
	struct value count = element_at(subject, PISTE_ELEMENT_UINT32, at);

	return count.bits;
}

static struct value sequence_element(const struct subject *subject, uint8_t kind, uint64_t at, uint64_t index)
{
	if (index >= count_at(subject, at))
		return nothing();
	return element_at(subject, kind, at + sizeof(uint32_t) + index * element_bytes(kind));
}

static struct value text_at(const struct subject *subject, uint8_t kind, uint64_t at)
{
	const uint8_t *text = subject->fields + at, *end;
	uint64_t bytes;

	if (at > subject->bytes)
		return nothing();
	if (kind == PISTE_FILTER_STRING) {
		end = memchr(text, 0, subject->bytes - at);
		return end ? text_value(text, (uint64_t)(end - text)) : nothing();
	}
	bytes = count_at(subject, at);
	if (subject->bytes - at < sizeof(uint32_t) || bytes > subject->bytes - at - sizeof(uint32_t))
		return nothing();
	return text_value(text + sizeof(uint32_t), bytes);
}

/* The end of a field that begins at `at`; beyond the fields if they are not as they should be. */
static uint64_t end_of(const struct subject *subject, uint8_t kind, uint64_t at)
{
	struct value text;

	if (!is_text(kind))
		return at + sizeof(uint32_t) + count_at(subject, at) * element_bytes(kind);
	text = text_at(subject, kind, at);
	if (text.kind == NOTHING)
		return subject->bytes;
	return (uint64_t)(text.text - subject->fields) + text.bits + (kind == PISTE_FILTER_STRING);
}

static struct value other_context(struct subject *subject, const struct piste_instruction *instruction)
{
	struct piste_context context = {instruction->offset, 0, instruction->operand, {0}};

	piste_context_write(&context, subject->other);
	switch (context.kind) {
	case PISTE_CONTEXT_VPID:
	case PISTE_CONTEXT_NICE:
	case PISTE_CONTEXT_PRIO:
		return signed_value(load_int32_t(subject->other));
	case PISTE_CONTEXT_PTHREAD_ID:
	case PISTE_CONTEXT_USAGE:
		return unsigned_value(load_uint64_t(subject->other));
	case PISTE_CONTEXT_CGROUP_PATH:
		return text_value(subject->other, strlen((char *)subject->other));
	default:
		return unsigned_value(load_uint32_t(subject->other));
	}
}

static struct value context(struct subject *subject, const struct piste_instruction *instruction)
{
	switch (instruction->kind) {
	case PISTE_FILTER_OTHER:
		return other_context(subject, instruction);
	case PISTE_FILTER_VTID:
		return signed_value(piste_thread_id());
	case PISTE_FILTER_CPU_ID:
		return unsigned_value(piste_thread_current_cpu());
	default:
		memset(subject->comm, 0, sizeof(subject->comm));
		prctl(PR_GET_NAME, subject->comm);
		return text_value(subject->comm, strnlen((char *)subject->comm, sizeof(subject->comm)));
	}
}

static uint64_t shifted_right(const struct value *value, uint64_t shift)
{
	return value->is_negative ? (uint64_t)((int64_t)value->bits >> shift) : value->bits >> shift;
}

/* An integer is its sign and 64 bits, of which the sign says how they go on. */
static struct value bits_of(const struct value *left, uint8_t how, const struct value *right)
{
	struct value result = {INTEGER, left->is_negative, left->bits, NULL};

	if (left->kind != INTEGER || right->kind != INTEGER ||
	    (how >= PISTE_BITS_SHIFT_LEFT && (right->is_negative || right->bits > 63)))
		return nothing();
	switch (how) {
	case PISTE_BITS_AND:
		result.bits &= right->bits;
		result.is_negative &= right->is_negative;
		break;
	case PISTE_BITS_OR:
		result.bits |= right->bits;
		result.is_negative |= right->is_negative;
		break;
	case PISTE_BITS_XOR:
		result.bits ^= right->bits;
		result.is_negative ^= right->is_negative;
		break;
	case PISTE_BITS_SHIFT_LEFT:
		result.bits <<= right->bits;
		if (shifted_right(&result, right->bits) != left->bits)
			return nothing();
		break;
	default:
		result.bits = shifted_right(left, right->bits);
		break;
	}
	/* Less than any integer of 64 bits. */
	return result.is_negative && (int64_t)result.bits >= 0 ? nothing() : result;
}

static double number_of(const struct value *value)
{
	double number;

	if (value->kind == INTEGER)
		return value->is_negative ? (double)(int64_t)value->bits : (double)value->bits;
	memcpy(&number, &value->bits, sizeof(number));
	return number;
}

/* Without branches. Of floats that are not numbers it is 0. */
#define RELATION(one, other)                                                                                           \
	((uint8_t)(((one) < (other)) * PISTE_COMPARE_LESS | ((one) == (other)) * PISTE_COMPARE_EQUAL |                 \
	           ((one) > (other)) * PISTE_COMPARE_GREATER))

static uint8_t relation_of_integers(const struct value *left, const struct value *right)
{
	if (left->is_negative != right->is_negative)
		return left->is_negative ? PISTE_COMPARE_LESS : PISTE_COMPARE_GREATER;
	/* Of two negative ones, the bits have the same order. */
	return RELATION(left->bits, right->bits);
}

static uint8_t relation_of_texts(const struct value *left, const struct value *right)
{
	int order = memcmp(left->text, right->text, left->bits < right->bits ? left->bits : right->bits);

	if (order == 0)
		return RELATION(left->bits, right->bits);
	return order < 0 ? PISTE_COMPARE_LESS : PISTE_COMPARE_GREATER;
}

static bool compare(uint8_t comparison, const struct value *left, const struct value *right)
{
	uint8_t relation;

	if (left->kind == NOTHING || right->kind == NOTHING || (left->kind == TEXT) != (right->kind == TEXT))
		return false;
	if (comparison == PISTE_COMPARE_BITS)
		return left->kind == INTEGER && right->kind == INTEGER && (left->bits & right->bits) != 0;
	if (left->kind == INTEGER && right->kind == INTEGER)
		relation = relation_of_integers(left, right);
	else if (left->kind == TEXT)
		relation = relation_of_texts(left, right);
	else
		relation = RELATION(number_of(left), number_of(right));
	return relation ? (comparison & relation) != 0 : comparison == PISTE_COMPARE_NOT_EQUAL;
}

static inline __attribute__((always_inline)) bool compare_field(const struct piste_instruction *instruction,
                                                                const uint8_t *fields, uint64_t bytes)
{
	uint64_t operand = instruction->operand, integer;
	uint8_t relation;

	if (piste_unlikely(instruction->end > bytes))
		return false;
	integer = piste_filter_integer(fields + instruction->offset, instruction->kind);
	relation = is_signed(instruction->kind) ? RELATION((int64_t)integer, (int64_t)operand)
	                                        : RELATION(integer, operand);
	if (piste_unlikely(instruction->comparison == PISTE_COMPARE_BITS))
		return (integer & operand) != 0;
	return (instruction->comparison & relation) != 0;
}

static bool one_is(const uint8_t *part, uint8_t byte)
{
	bool is_in = byte < 128 && (part[1 + byte / 8] >> (byte % 8) & 1);

	switch (*part) {
	case PISTE_PATTERN_BYTE:
		return part[1] == byte;
	case PISTE_PATTERN_IN:
		return is_in;
	case PISTE_PATTERN_NOT_IN:
		return !is_in;
	default:
		return true;
	}
}

/* Where something goes wrong, only the last star takes one byte more: what is between two stars is best found at its first place. */
static bool is_like(const uint8_t *pattern, uint32_t pattern_bytes, const uint8_t *text, uint64_t text_bytes)
{
	const uint8_t *pattern_end = pattern + pattern_bytes, *text_end = text + text_bytes;
	const uint8_t *behind_star = NULL, *taken = NULL;

	for (;;) {
		if (pattern < pattern_end && *pattern == PISTE_PATTERN_STAR) {
			behind_star = ++pattern;
			taken = text;
		} else if (pattern < pattern_end && text < text_end && one_is(pattern, *text)) {
			pattern += part_bytes(*pattern);
			text++;
		} else if (pattern == pattern_end && text == text_end) {
			return true;
		} else if (behind_star && taken < text_end) {
			pattern = behind_star;
			text = ++taken;
		} else {
			return false;
		}
	}
}

/* False if the value is no text. */
static bool tests_pattern(const struct piste_filter *filter, const struct piste_instruction *instruction,
                          const struct value *value)
{
	if (value->kind != TEXT)
		return false;
	return is_like(texts_of(filter) + operand_begin(instruction), operand_bytes(instruction), value->text,
	               value->bits) == (instruction->opcode == PISTE_FILTER_LIKE);
}

/* Executes the instructions from `index` on. */
static __attribute__((noinline)) bool execute(const struct piste_filter *filter, uint32_t index, const uint8_t *fields,
                                              uint64_t bytes)
{
	struct value stack[PISTE_FILTER_DEPTH_MAX], *top = stack;
	uint32_t place_count = 1;
	struct subject subject;
	bool is_true;

	subject.fields = fields;
	subject.bytes = bytes;
	subject.places[0] = 0;
	for (;;) {
		const struct piste_instruction *instruction = &instructions_of(filter)[index++];

		switch (instruction->opcode) {
		case PISTE_FILTER_PLACE:
			subject.places[place_count++] = end_of(
			        &subject, instruction->kind, subject.places[instruction->place] + instruction->offset);
			continue;
		case PISTE_FILTER_FIELD:
			*top++ = element_at(&subject, instruction->kind,
			                    subject.places[instruction->place] + instruction->offset);
			continue;
		case PISTE_FILTER_ELEMENT:
			*top++ = sequence_element(&subject, instruction->kind,
			                          subject.places[instruction->place] + instruction->offset,
			                          instruction->operand);
			continue;
		case PISTE_FILTER_TEXT:
			*top++ = text_at(&subject, instruction->kind,
			                 subject.places[instruction->place] + instruction->offset);
			continue;
		case PISTE_FILTER_CONTEXT:
			*top++ = context(&subject, instruction);
			continue;
		case PISTE_FILTER_SIGNED:
			*top++ = signed_value((int64_t)instruction->operand);
			continue;
		case PISTE_FILTER_UNSIGNED:
			*top++ = unsigned_value(instruction->operand);
			continue;
		case PISTE_FILTER_FLOAT:
			*top++ = float_value(load_double((const uint8_t *)&instruction->operand));
			continue;
		case PISTE_FILTER_CONSTANT:
			*top++ = text_value(texts_of(filter) + operand_begin(instruction), operand_bytes(instruction));
			continue;
		case PISTE_FILTER_BITS:
			top--;
			top[-1] = bits_of(&top[-1], instruction->kind, top);
			continue;
		case PISTE_FILTER_COMPARE:
			is_true = compare(instruction->comparison, &top[-2], &top[-1]);
			break;
		case PISTE_FILTER_COMPARE_FIELD:
			is_true = compare_field(instruction, fields, bytes);
			break;
		case PISTE_FILTER_EXISTS:
			is_true = top[-1].kind != NOTHING;
			break;
		default:
			is_true = tests_pattern(filter, instruction, &top[-1]);
			break;
		}
		top = stack;
		index = is_true ? instruction->if_true : instruction->if_false;
		if (index >= PISTE_FILTER_REJECT)
			return index == PISTE_FILTER_ACCEPT;
	}
}

bool piste_filter_passes(const struct piste_filter *filter, const uint8_t *fields, uint64_t bytes)
{
	uint32_t index = 0;

	/* The usual filter asks for nothing else, and needs no stack. */
	for (;;) {
		const struct piste_instruction *instruction = &instructions_of(filter)[index];

		if (instruction->opcode != PISTE_FILTER_COMPARE_FIELD)
			return execute(filter, index, fields, bytes);
		index = compare_field(instruction, fields, bytes) ? instruction->if_true : instruction->if_false;
		if (index >= PISTE_FILTER_REJECT)
			return index == PISTE_FILTER_ACCEPT;
	}
}

/* ---- Memory for fields that filters look at, where a program's own is too small ---- */

#define SCRATCH_BYTES (64u << 10)

static uint64_t mapped_bytes(uint64_t bytes)
{
	return bytes > SCRATCH_BYTES ? bytes : SCRATCH_BYTES;
}

static void *free_scratch[16];

uint8_t *piste_filter_scratch(uint64_t bytes)
{
	int saved_errno = errno;
	uint8_t *memory = NULL;

	if (bytes <= SCRATCH_BYTES)
		for (size_t index = 0; !memory && index < sizeof(free_scratch) / sizeof(free_scratch[0]); index++)
			if (__atomic_load_n(&free_scratch[index], __ATOMIC_RELAXED))
				memory = __atomic_exchange_n(&free_scratch[index], NULL, __ATOMIC_ACQUIRE);
	if (!memory && bytes <= PISTE_SUBBUF_BYTES_MAX)
		memory = mmap(NULL, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved_errno;
	return memory == MAP_FAILED ? NULL : memory;
}

void piste_filter_scratch_done(uint8_t *memory, uint64_t bytes)
{
	int saved_errno = errno;

	if (bytes <= SCRATCH_BYTES)
		for (size_t index = 0; index < sizeof(free_scratch) / sizeof(free_scratch[0]); index++) {
			void *none = NULL;

			if (__atomic_compare_exchange_n(&free_scratch[index], &none, memory, false, __ATOMIC_RELEASE,
			                                __ATOMIC_RELAXED))
				return;
		}
	munmap(memory, mapped_bytes(bytes));
	errno = saved_errno;
}
