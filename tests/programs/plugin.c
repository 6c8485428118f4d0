/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with events of its own, which plugin_host.c loads and unloads. */
#include <piste/tracepoint.h>

void plugin_call(uint32_t number);

PISTE_EVENT(plugin, loaded)
PISTE_EVENT(plugin, call, (uint32_t, number))
PISTE_EVENT(plugin, unloaded)

__attribute__((constructor)) static void load(void)
{
	piste(plugin, loaded);
}

__attribute__((destructor)) static void unload(void)
{
	piste(plugin, unloaded);
}

void plugin_call(uint32_t number)
{
	piste(plugin, call, number);
}
