/* SPDX-License-Identifier: MIT */
/*
 * Strings that programs pass to events. A wrong pointer must not end a program because its events are recorded, so a page is read
 * only after the kernel was asked whether it can be.
 *
 * Asking costs a system call. So each thread remembers some pages that can be read, and asks again after some thousand uses. A program
 * can still crash if it unmaps a page between two questions and goes on passing strings in it.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <piste/tracepoint.h>

/* Real pages may be larger, and are multiples of it. */
#define PAGE_BYTES    4096u
#define USES_MASK     (PAGE_BYTES - 1)
#define NO_HOW        (-1)
#define SIGNALS_BYTES 8

#define KNOWN_COUNT   16u
/* The address of a page, and how often it is still used without asking. A signal handler that changes one in between does no harm. */
static __thread uintptr_t known_pages[KNOWN_COUNT] __attribute__((tls_model("initial-exec")));

/* rt_sigprocmask() reads the signals before it looks at `how`, which is invalid: either way, it changes nothing. They are not at the beginning
 * of the page, since it would read nothing at address 0. */
static __attribute__((noinline)) bool ask(uintptr_t page)
{
	int saved_errno = errno;
	bool is_readable =
	        syscall(SYS_rt_sigprocmask, NO_HOW, page + SIGNALS_BYTES, NULL, SIGNALS_BYTES) == 0 || errno != EFAULT;

	errno = saved_errno;
	return is_readable;
}

static bool page_is_readable(uintptr_t page)
{
	uintptr_t *known = &known_pages[(page / PAGE_BYTES ^ page / PAGE_BYTES / KNOWN_COUNT) % KNOWN_COUNT];
	uintptr_t word = *known;

	if (piste_likely((word ^ page) - 1 < USES_MASK)) {
		*known = word - 1;
		return true;
	}
	if (!ask(page))
		return false;
	*known = page | USES_MASK;
	return true;
}

struct piste_string piste_string_measure(const char *text)
{
	static const char null[] = "(null)", unreadable[] = "(unreadable)";
	uint64_t length = 0;

	if (piste_unlikely(!text))
		return (struct piste_string){null, sizeof(null)};
	for (;;) {
		uintptr_t address = (uintptr_t)text + length;
		uintptr_t page = address & ~(uintptr_t)USES_MASK;
		uint64_t rest = PAGE_BYTES - (address - page), found;

		if (piste_unlikely(!page_is_readable(page)))
			return (struct piste_string){unreadable, sizeof(unreadable)};
		found = strnlen((const char *)address, rest);
		length += found;
		if (piste_likely(found < rest))
			return (struct piste_string){text, length + 1};
	}
}
