/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sum of a CPU's interrupts, from the text of /proc/interrupts, which comes in pieces: with many CPUs it is larger than any buffer should be.
 * The first line names the CPUs that are online. Each of the others has a name, a count for each of these CPUs, and what the interrupt is.
 * Lines with fewer counts (ERR, MIS) are not about single CPUs.
 */
#ifndef BENCH_INTERRUPTS_H
#define BENCH_INTERRUPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interrupts {
	/* The CPU's, of the lines read so far. */
	uint64_t sum;
	uint32_t cpu;
	/* CPUs in the first line, and the place of `cpu` among them. */
	uint32_t column_count, column;
	bool has_column;
	/* Of the line: */
	bool is_heading, is_named, is_over;
	uint32_t counts;
	uint64_t of_cpu;
	/* Of the word: */
	uint32_t letters, digits;
	uint64_t number;
};

static inline struct interrupts interrupts_of(uint32_t cpu)
{
	return (struct interrupts){.cpu = cpu, .is_heading = true};
}

static inline void end_word(struct interrupts *text)
{
	if (text->is_heading) {
		if (text->digits > 0 && text->number == text->cpu) {
			text->column = text->column_count;
			text->has_column = true;
		}
		text->column_count += text->digits > 0;
	} else if (text->letters == 0 && text->counts < text->column_count) {
		if (text->counts == text->column)
			text->of_cpu = text->number;
		text->counts++;
	} else {
		text->is_over = true;
	}
}

static inline void end_line(struct interrupts *text)
{
	if (text->has_column && text->column_count > 0 && text->counts == text->column_count)
		text->sum += text->of_cpu;
	text->is_heading = text->is_named = text->is_over = false;
	text->counts = 0;
}

static inline void add_interrupts(struct interrupts *text, const char *piece, size_t bytes)
{
	for (size_t place = 0; place < bytes; place++) {
		char letter = piece[place];

		if (letter == ' ' || letter == '\n') {
			bool is_word = text->letters + text->digits > 0;

			if (is_word && !text->is_over && (text->is_heading || text->is_named))
				end_word(text);
			text->letters = text->digits = 0;
			text->number = 0;
			if (letter == '\n')
				end_line(text);
		} else if (letter >= '0' && letter <= '9') {
			text->number = 10 * text->number + (uint64_t)(letter - '0');
			text->digits++;
		} else if (letter == ':' && !text->is_named) {
			/* The word before it was the name. */
			text->is_named = true;
			text->letters = text->digits = 0;
			text->number = 0;
		} else {
			text->letters++;
		}
	}
}

#endif
