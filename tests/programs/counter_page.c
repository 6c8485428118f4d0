/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * counter_page: reads counters as the runtime does, where this program says what the processor's registers hold. The pages are made up,
 * but for one of the kernel's, whose counter is in no register.
 */
#define _GNU_SOURCE
#include <stdint.h>

static uint64_t registers[8];
static uint32_t changes;

struct perf_event_mmap_page;
static uint64_t read_register(uint32_t number);
#define PISTE_READ_COUNTER_REGISTER(number) read_register(number)
#include "../../runtime/counter_page.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct perf_event_mmap_page made;

/* The thread is moved to another register while it reads this one, as often as `changes` says. */
static uint64_t read_register(uint32_t number)
{
	if (changes > 0) {
		changes--;
		made.lock += 2;
		made.index = made.index % 8 + 1;
		made.offset += 1000;
	}
	return registers[number];
}

static int failed(const char *what)
{
	printf("failed: %s\n", what);
	return 1;
}

static int open_page_faults(struct perf_event_mmap_page **page)
{
	struct perf_event_attr attributes;
	int file;

	memset(&attributes, 0, sizeof(attributes));
	attributes.type = PERF_TYPE_SOFTWARE;
	attributes.size = sizeof(attributes);
	attributes.config = PERF_COUNT_SW_PAGE_FAULTS;
	attributes.exclude_kernel = 1;
	file = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (file < 0)
		return 0;
	*page = mmap(NULL, (size_t)getpagesize(), PROT_READ, MAP_SHARED, file, 0);
	close(file);
	return *page != MAP_FAILED;
}

int main(void)
{
	struct perf_event_mmap_page *kernels;
	uint64_t value;

	made.pmc_width = 48;
	made.cap_user_rdpmc = 1;
	made.offset = 5000;
	made.index = 3;
	registers[2] = 7;
	if (!piste_counter_page_read(&made, &value) || value != 5007)
		return failed("a small number");
	registers[2] = UINT64_C(0xffffffffffff); /* -1 of 48 bits. */
	if (!piste_counter_page_read(&made, &value) || value != 4999)
		return failed("a negative number");
	registers[2] = UINT64_C(0xabcd000000000001); /* What is above the 48 bits means nothing. */
	if (!piste_counter_page_read(&made, &value) || value != 5001)
		return failed("bits that are not the counter's");
	for (int index = 0; index < 8; index++)
		registers[index] = (uint64_t)index;
	changes = 3;
	if (!piste_counter_page_read(&made, &value) || made.index != 6 || value != 8005)
		return failed("a counter that moves");
	made.index = 0;
	if (piste_counter_page_read(&made, &value))
		return failed("a counter that does not count now");
	made.index = 3;
	made.cap_user_rdpmc = 0;
	if (piste_counter_page_read(&made, &value))
		return failed("a counter that programs may not read");
	if (open_page_faults(&kernels) && piste_counter_page_read(kernels, &value))
		return failed("a counter that is in no register");
	puts("done");
	return 0;
}
