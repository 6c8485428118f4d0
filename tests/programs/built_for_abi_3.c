/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * built_for_abi_3: what a compiler made of a program with an event when the contract had version 3: the same objects, and references to the
 * same functions. Says whether its event was ever enabled, and ends with its standard input.
 */
#include <stdint.h>
#include <stdio.h>

struct module {
	int64_t offsets[2];
	uint32_t registered, id;
	struct event *events, *events_end;
	struct module *next;
};

static const struct {
	const char *provider, *name;
	const void *fields;
	uint16_t field_count;
	uint8_t level;
} info = {"old", "event", NULL, 0, 13};

static struct event {
	volatile uint32_t enabled;
	uint32_t magic;
	const void *info;
	volatile uint64_t slot[8];
	uint64_t reserved[6];
} __attribute__((aligned(128))) event = {0, 0x56455350, &info, {0}, {0}};

static struct module module = {{0, 0}, 1, 0, &event, &event + 1, NULL};

extern __thread int32_t piste_thread_id __attribute__((tls_model("initial-exec")));
int32_t piste_thread_id_slow(void);
uint32_t piste_thread_cpu_slow(void);
uint64_t piste_clock_monotonic(void);
int piste_make_room(void *channel, uint32_t index, uint64_t units);
void piste_module_register(struct module *module, uint32_t abi_major);
void piste_module_unregister(struct module *module);

int main(void)
{
	piste_module_register(&module, 3);
	while (getchar() != EOF)
		;
	if (event.enabled)
		piste_make_room((void *)(uintptr_t)event.slot[0], piste_thread_cpu_slow(),
		                piste_clock_monotonic() + (piste_thread_id ? 1 : (uint64_t)piste_thread_id_slow()));
	puts(event.enabled ? "enabled" : "never enabled");
	piste_module_unregister(&module);
	return 0;
}
