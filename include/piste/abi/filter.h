/* SPDX-License-Identifier: MIT */
/*
 * A filter as a program evaluates it: instructions for the fields of one event, which pisted makes from the text of a filter.
 *
 *   struct piste_filter
 *   instruction_count x struct piste_instruction
 *   text_bytes bytes                                     texts and patterns, which instructions refer to
 *
 * The program writes the fields of the event as in a record, then executes the instructions on them, from the first one on. They
 * work on a stack of values: an integer, a float, a text, or nothing (an element that is not there). A test takes all values from
 * the stack, and goes on at one of two places behind itself. So each instruction is executed once at most, and a program checks
 * with one pass over the instructions, before it uses them, that they always end and never leave the stack.
 *
 * What a test means is that of crates/filter: a comparison with nothing, or of a text with a number, is false.
 */
#ifndef PISTE_ABI_FILTER_H
#define PISTE_ABI_FILTER_H

#include "base.h"

#define PISTE_FILTER_INSTRUCTION_COUNT_MAX 2048u
#define PISTE_FILTER_DEPTH_MAX             8u  /* Values on the stack. */
#define PISTE_FILTER_PLACE_COUNT_MAX       41u /* The begin of the fields, and the end of each field. */
#define PISTE_FILTER_TEXT_BYTES_MAX        15000u
#define PISTE_FILTER_BYTES_MAX             65000u

struct piste_filter {
	uint32_t instruction_count;
	uint32_t text_bytes;
};
PISTE_ABI_SIZE(struct piste_filter, 8);

/* Before the instructions for values come those for places: fields lie at an offset from a place. Place 0 is where the first field
 * begins. Each PLACE instruction makes the next one: the end of a field that has no fixed size. */
enum piste_opcode {
	PISTE_FILTER_PLACE = 1, /* `kind` as in FIELD, for a sequence of such elements; or enum piste_filter_text. */

	/* These put a value on the stack. */
	PISTE_FILTER_FIELD = 2,    /* The enum piste_element `kind` at `offset` from `place`. */
	PISTE_FILTER_ELEMENT = 3,  /* Element `operand` of the sequence there. */
	PISTE_FILTER_TEXT = 4,     /* The text there; `kind` is an enum piste_filter_text. */
	PISTE_FILTER_CONTEXT = 5,  /* `kind` is an enum piste_filter_context. */
	PISTE_FILTER_SIGNED = 6,   /* `operand`, as an int64 ... */
	PISTE_FILTER_UNSIGNED = 7, /* ... as a uint64 ... */
	PISTE_FILTER_FLOAT = 8,    /* ... as the bits of a double. */
	PISTE_FILTER_CONSTANT = 9, /* A text, of (operand >> 32) bytes at (uint32_t)operand of the texts. */
	/* This takes two values, and puts one on the stack. */
	PISTE_FILTER_BITS = 10, /* What becomes of the bits of two integers: `kind` is an enum piste_bits. */

	/* Tests: they go on at instruction `if_true` or `if_false`. */
	PISTE_FILTER_COMPARE = 16, /* Two values. */
	/* The integer field from `offset` to `end` from place 0, with `operand`, an integer of the same signedness. */
	PISTE_FILTER_COMPARE_FIELD = 17,
	PISTE_FILTER_LIKE = 18,   /* A text is like a pattern, which `operand` names as in CONSTANT ... */
	PISTE_FILTER_UNLIKE = 19, /* ... is a text, and not like it. */
	PISTE_FILTER_EXISTS = 20, /* It is not nothing. */
};

/* Where a test goes on to end the filter. */
#define PISTE_FILTER_ACCEPT 0xffffu
#define PISTE_FILTER_REJECT 0xfffeu

/* How a text lies in a record; values beyond those of enum piste_element. */
enum piste_filter_text {
	PISTE_FILTER_STRING = 16,  /* Up to a zero byte. */
	PISTE_FILTER_COUNTED = 17, /* uint32 number of bytes, then the bytes. */
};

enum piste_filter_context {
	PISTE_FILTER_VTID = 1,   /* int32 */
	PISTE_FILTER_CPU_ID = 2, /* uint16: CPU on which the filter is evaluated. */
	PISTE_FILTER_COMM = 3,   /* The name of the thread, a text. */
	PISTE_FILTER_OTHER =
	        4, /* `offset` is an enum piste_context_kind (ring.h) from VPID to USAGE, but not PROCNAME or IP; `operand` is its config. */
};

/* The result is an integer of 64 bits, with or without a sign; where it would not be one, it is nothing. */
enum piste_bits {
	PISTE_BITS_AND = 0,
	PISTE_BITS_OR = 1,
	PISTE_BITS_XOR = 2,
	PISTE_BITS_SHIFT_LEFT = 3, /* By 0 to 63. */
	PISTE_BITS_SHIFT_RIGHT = 4,
};

/* What may be the relation of the first value to the second: bits. */
enum piste_comparison {
	PISTE_COMPARE_LESS = 1,
	PISTE_COMPARE_EQUAL = 2,
	PISTE_COMPARE_GREATER = 4,
	PISTE_COMPARE_LESS_OR_EQUAL = 3,
	PISTE_COMPARE_NOT_EQUAL = 5, /* Also of a float that is not a number. */
	PISTE_COMPARE_GREATER_OR_EQUAL = 6,
	PISTE_COMPARE_BITS = 8, /* Instead of a relation: two integers have a bit in common. */
};

/* A pattern is a sequence of these. A byte of the text or a set of characters follows where the comment says so. */
enum piste_pattern {
	PISTE_PATTERN_BYTE = 1,   /* uint8: this byte. */
	PISTE_PATTERN_ANY = 2,    /* Any byte. */
	PISTE_PATTERN_IN = 3,     /* 16 bytes: a character of ASCII whose bit is set. */
	PISTE_PATTERN_NOT_IN = 4, /* 16 bytes: any other byte. */
	PISTE_PATTERN_STAR = 5,   /* Any number of bytes. */
};

struct piste_instruction {
	uint8_t opcode;
	uint8_t kind;
	uint8_t comparison; /* enum piste_comparison, of a test that compares. */
	uint8_t place;
	uint16_t if_true;
	uint16_t if_false;
	uint32_t offset;
	uint32_t end; /* Of COMPARE_FIELD, otherwise 0. */
	uint64_t operand;
};
PISTE_ABI_SIZE(struct piste_instruction, 24);

#endif
