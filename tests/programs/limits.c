/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * limits WHAT: names of 127 characters; events larger than a sub-buffer; strings at the limit of one. Prints how many events it
 * has recorded.
 */
#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_NAME                                                                                                      \
	n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n23456789_n234567
#define DECLARE(name) PISTE_EVENT(name, name, (int32_t, name), PISTE_ENUM(state, (name, 1)))
#define RECORD(name)  piste(name, name, 42, 1)

/* Once more, so that LONG_NAME is replaced before its text is taken. */
#define EXPANDED(macro, ...) macro(__VA_ARGS__)

EXPANDED(DECLARE, LONG_NAME)
PISTE_EVENT(limits, text, (uint32_t, number), (const char *, text))
PISTE_EVENT(limits, numbers, (uint32_t, number), PISTE_SEQUENCE(uint64_t, numbers))

/* A string of that many bytes with its zero. */
static char *text_of(size_t bytes)
{
	char *text = (char *)malloc(bytes);

	if (!text)
		abort();
	memset(text, 'x', bytes - 1);
	text[bytes - 1] = 0;
	return text;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint32_t recorded = 0;

	if (strcmp(what, "names") == 0) {
		EXPANDED(RECORD, LONG_NAME);
		recorded++;
	} else if (strcmp(what, "strings") == 0) {
		/* 8 MiB, then what only just fits and does not fit into the sub-buffer that the test has chosen, then small ones. */
		size_t limit = strtoul(argv[2], NULL, 10);
		size_t sizes[] = {8 << 20, limit, limit + 16, 1, 100};

		for (; recorded < sizeof(sizes) / sizeof(sizes[0]); recorded++) {
			char *text = text_of(sizes[recorded]);

			piste(limits, text, recorded, text);
			free(text);
		}
		piste(limits, text, recorded++, NULL);
	} else if (strcmp(what, "sequences") == 0) {
		size_t counts[] = {4, 1 << 20, (size_t)1 << 60, 0, 2};
		uint64_t *numbers = (uint64_t *)calloc(1 << 20, sizeof(*numbers));

		for (; recorded < sizeof(counts) / sizeof(counts[0]); recorded++)
			piste(limits, numbers, recorded, numbers, counts[recorded]);
		free(numbers);
	} else if (strcmp(what, "prints") == 0) {
		char *text = text_of(8 << 20);

		piste_printf("%s", text);
		piste_printf("%s", "short");
		free(text);
		recorded = 2;
	}
	printf("%u\n", recorded);
	return 0;
}
