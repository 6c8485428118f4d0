/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernel's user events, as their documentation says (Linux, Documentation/trace/user_events.rst). $PISTE_BENCH_USER_EVENTS is the file in which
 * events are registered and written; $PISTE_BENCH_RECORDED and $PISTE_BENCH_DISABLED are the definitions of the two events. */
#define _GNU_SOURCE
#include "rounds.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

/* Any of the 32 would do. */
#define ENABLE_BIT 31

/* The kernel's struct user_reg, which the headers of older systems lack. */
struct registration {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_address;
	uint64_t definition;
	uint32_t write_index;
} __attribute__((packed));
#define REGISTER _IOWR('*', 0, struct registration *)

struct user_event {
	/* The kernel sets a bit in it while somebody records the event. */
	volatile uint32_t enabled;
	uint32_t write_index;
};

static int data_file;
static struct user_event recorded, disabled;

static inline void record(struct user_event *event, int32_t value)
{
	struct iovec parts[2] = {{&event->write_index, sizeof(event->write_index)}, {&value, sizeof(value)}};

	if (__builtin_expect((event->enabled & (1u << ENABLE_BIT)) == 0, 1))
		return;
	if (writev(data_file, parts, 2) < 0)
		abort();
}

VARIANT(record_recorded, record(&recorded, (int32_t)event))
VARIANT(record_disabled, record(&disabled, (int32_t)event))

static const struct variant variants[] = {{"recorded", record_recorded}, {"disabled", record_disabled}};

static bool register_event(const char *variable, struct user_event *event)
{
	const char *definition = getenv(variable);
	struct registration registration = {
	        .size = sizeof(registration),
	        .enable_bit = ENABLE_BIT,
	        .enable_size = sizeof(event->enabled),
	        .enable_address = (uintptr_t)&event->enabled,
	        .definition = (uintptr_t)definition,
	};

	if (!definition || ioctl(data_file, REGISTER, &registration) != 0) {
		perror(definition ? definition : variable);
		return false;
	}
	event->write_index = registration.write_index;
	return true;
}

int main(int argument_count, char **arguments)
{
	const char *path = getenv("PISTE_BENCH_USER_EVENTS");

	data_file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (data_file < 0) {
		perror(path ? path : "PISTE_BENCH_USER_EVENTS");
		return 1;
	}
	if (!register_event("PISTE_BENCH_RECORDED", &recorded) || !register_event("PISTE_BENCH_DISABLED", &disabled))
		return 1;
	return serve_rounds(argument_count, arguments, variants, sizeof(variants) / sizeof(variants[0]));
}
