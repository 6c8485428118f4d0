/* SPDX-License-Identifier: MIT */
/* Formatted events: one string field, formatted once and copied to each channel. */
#include <errno.h>
#include <piste/tracepoint.h>
#include <stdarg.h>
#include <stdio.h>

/* Longer texts are formatted a second time, straight into the ring. */
#define PISTE_PRINT_STACK_BYTES 512

void piste_print(struct piste_event *event, const char *format, ...)
{
	char text[PISTE_PRINT_STACK_BYTES];
	struct piste_place place;
	struct piste_record record;
	int saved_errno = errno;
	va_list arguments;
	uint8_t *cursor;
	size_t bytes;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		length = snprintf(text, sizeof(text), "(the format '%.64s' cannot be printed)", format);
	bytes = (size_t)length + 1;
	place = piste_record_begin(&record, event, __builtin_return_address(0), bytes, 0);
	for (cursor = place.cursor; cursor; cursor = piste_record_next(&record)) {
		if (piste_likely(bytes <= sizeof(text))) {
			piste_put(cursor, text, bytes);
			if (piste_unlikely(!place.marks))
				continue;
			piste_place_commit(place);
			break;
		}
		/* What an argument lost or gained meanwhile is padded or cut. */
		memset(cursor, ' ', bytes);
		va_start(arguments, format);
		length = vsnprintf((char *)cursor, bytes, format, arguments);
		va_end(arguments);
		if (length >= 0 && (size_t)length < bytes - 1)
			cursor[length] = ' ';
		cursor[bytes - 1] = 0;
	}
	errno = saved_errno;
}
