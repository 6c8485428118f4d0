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
	/* ORDER event.slot (acquire): as in piste/tracepoint.h. */
	uint32_t bits = piste_load_acquire(&event->enabled);
	char text[PISTE_PRINT_STACK_BYTES];
	int saved_errno = errno;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		length = snprintf(text, sizeof(text), "(the format '%.64s' cannot be printed)", format);
	for (volatile uint64_t *slot = event->slot; bits; bits >>= 1, slot++) {
		struct piste_record record;
		size_t bytes = (size_t)length + 1;

		if (!(bits & 1))
			continue;
		record = piste_reserve(&piste_this_module.offsets, slot, bytes);
		if (!record.cursor)
			continue;
		if (bytes <= sizeof(text)) {
			piste_put(record.cursor, text, bytes);
		} else {
			/* What an argument lost or gained meanwhile is padded or cut. */
			memset(record.cursor, ' ', bytes);
			va_start(arguments, format);
			length = vsnprintf((char *)record.cursor, bytes, format, arguments);
			va_end(arguments);
			if (length >= 0 && (size_t)length < bytes - 1)
				record.cursor[length] = ' ';
			record.cursor[bytes - 1] = 0;
			length = (int)bytes - 1;
		}
		piste_commit(record);
	}
	errno = saved_errno;
}
