/* SPDX-License-Identifier: MIT */
/* What the kernel's page for a counter says: see struct perf_event_mmap_page in <linux/perf_event.h>. */
#ifndef PISTE_COUNTER_PAGE_H
#define PISTE_COUNTER_PAGE_H

#include <linux/perf_event.h>
#include <piste/atomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Tests read other registers. */
#ifndef PISTE_READ_COUNTER_REGISTER
#if defined(__x86_64__)
#define PISTE_READ_COUNTER_REGISTER(number) __builtin_ia32_rdpmc((int)(number))
#else
#define PISTE_READ_COUNTER_REGISTER(number) 0
#define PISTE_NO_COUNTER_REGISTERS          1
#endif
#endif

/* False: the counter does not count now, or the kernel does not let programs read it. Safe in signal handlers. */
static inline bool piste_counter_page_read(const volatile struct perf_event_mmap_page *page, uint64_t *value)
{
	uint32_t sequence, index;
	bool is_readable;
	uint64_t sum;

	do {
		sequence = page->lock;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		index = page->index;
		sum = (uint64_t)page->offset;
		is_readable = page->cap_user_rdpmc && index != 0;
#ifdef PISTE_NO_COUNTER_REGISTERS
		is_readable = false;
#endif
		if (is_readable) {
			uint32_t unused_bits = 64 - page->pmc_width;
			uint64_t shifted = (uint64_t)PISTE_READ_COUNTER_REGISTER(index - 1) << unused_bits;

			/* The register is signed, and narrower than 64 bits. */
			sum += (uint64_t)((int64_t)shifted >> unused_bits);
		}
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (page->lock != sequence);
	*value = sum;
	return is_readable;
}

#endif
