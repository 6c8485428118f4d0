/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For counters.rs, one question for each run:
 *     interrupts CPU PIECE_BYTES                                        the CPU's interrupts in the text on standard input, read in such pieces
 *     between VALUE ENABLED RUNNING VALUE ENABLED RUNNING               what was counted between two readings, or "unknown"
 */
#include "counters.h"
#include "interrupts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct count reading(char **words)
{
	return (struct count){strtoull(words[0], NULL, 10), strtoull(words[1], NULL, 10), strtoull(words[2], NULL, 10)};
}

int main(int argument_count, char **arguments)
{
	if (argument_count == 4 && strcmp(arguments[1], "interrupts") == 0) {
		struct interrupts text = interrupts_of((uint32_t)atoi(arguments[2]));
		size_t bytes = (size_t)atol(arguments[3]), got;
		char *piece = malloc(bytes);

		while (piece && (got = fread(piece, 1, bytes, stdin)) > 0)
			add_interrupts(&text, piece, got);
		printf("%llu\n", (unsigned long long)text.sum);
		free(piece);
	} else if (argument_count == 8 && strcmp(arguments[1], "between") == 0) {
		struct count before = reading(arguments + 2), after = reading(arguments + 5);
		double count;

		if (counted_between(&before, &after, &count))
			printf("%.0f\n", count);
		else
			printf("unknown\n");
	} else {
		return 2;
	}
	return 0;
}
