/* SPDX-License-Identifier: MIT */
/*
 * Where the program and its libraries lie in memory, as events of one channel, so that addresses in the trace can be resolved later. Names
 * and fields are those that existing readers of user-space traces look for.
 */
#define _GNU_SOURCE
#include "object.h"
#include "runtime.h"

#include <errno.h>
#include <limits.h>
#include <piste/tracepoint.h>
#include <unistd.h>

PISTE_EVENT(lttng_ust_statedump, start)
PISTE_EVENT(lttng_ust_statedump, procname, (const char *, procname))
PISTE_EVENT(lttng_ust_statedump, bin_info, (void *, baddr), (uint64_t, memsz), (const char *, path), (uint8_t, is_pic),
            (uint8_t, has_build_id), (uint8_t, has_debug_link))
PISTE_EVENT(lttng_ust_statedump, build_id, (void *, baddr), PISTE_SEQUENCE(uint8_t, build_id))
PISTE_EVENT(lttng_ust_statedump, end)

/* Records an event in one channel only, whatever other channels have it too. */
#define RECORD_IN(slot, event, ...)                                                                                    \
	do {                                                                                                           \
		struct piste_event only = piste_event_only(&PISTE_EVENT__lttng_ust_statedump__##event, slot);          \
		PISTE_RECORD_ANYWHERE__lttng_ust_statedump__##event(__VA_ARGS__ __VA_OPT__(, ) & only, NULL);          \
	} while (0)

static int dump_object(struct dl_phdr_info *info, size_t info_bytes, void *slot_pointer)
{
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	uint32_t slot = *(uint32_t *)slot_pointer;
	struct piste_object object = piste_object_describe(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
	char program[PATH_MAX];

	(void)info_bytes;
	if (object.bytes == 0)
		return 0;
	if (path[0] == 0) {
		ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

		program[length > 0 ? length : 0] = 0;
		path = program;
	}
	RECORD_IN(slot, bin_info, (void *)object.base, object.bytes, path, info->dlpi_addr != 0,
	          object.build_id != NULL, 0);
	if (object.build_id)
		RECORD_IN(slot, build_id, (void *)object.base, object.build_id, object.build_id_bytes);
	return 0;
}

void piste_statedump(uint32_t slot)
{
	RECORD_IN(slot, start);
	RECORD_IN(slot, procname, program_invocation_short_name);
	dl_iterate_phdr(dump_object, &slot);
	RECORD_IN(slot, end);
}
