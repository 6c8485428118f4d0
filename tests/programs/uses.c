/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where a record may stand in C: everything here must compile without a warning. */
#include <piste/context.h>
#include <piste/snapshot.h>
#include <piste/tracepoint.h>
#include <stdlib.h>

PISTE_EVENT(uses, nothing)
PISTE_EVENT(uses, order, (int32_t, id), (const char *, customer), (double, price))
PISTE_EVENT(uses, bytes, PISTE_SEQUENCE(uint8_t, bytes), PISTE_TEXT(text))
PISTE_EVENT_LEVEL(uses, state, ERR, PISTE_ENUM(state, (OPEN, 0), (CLOSED, 1)))
PISTE_EVENT(uses, never_recorded, (int32_t, id))
/* Names that the fields' own code could be thought to use. */
PISTE_EVENT(uses, names, (int, event), (int, cursor), (int, bytes), (int, count), (int, channel), (int, record),
            (int, measure), (const char *, of), (const char *, string))

static int costly(void)
{
	return rand();
}

static inline void in_an_inline_function(int id)
{
	piste(uses, order, id, "inline", 1);
}

static void say_nothing(void *data, struct piste_value *value)
{
	*value = data ? piste_value_string("data") : piste_value_double(0.5);
}

static int as_a_context(void)
{
	return piste_context_register("uses", "context", say_nothing, NULL) ||
	       piste_context_unregister("uses", "context");
}

static void as_a_statement(int id)
{
	if (id > 2)
		piste_snapshot("a statement");
	else if (id > 1)
		piste(uses, nothing);
	else
		piste(uses, order, id, NULL, 0.5f);
	for (int turn = 0; turn < id; turn++)
		piste(uses, names, turn, 2, 3, 4, 5, 6, 7, "of", "string");
	switch (id) {
	case 1:
		piste(uses, state, 1);
		break;
	default:
		piste_printf("no argument");
	}
}

int main(int argc, char **argv)
{
	const uint8_t bytes[] = {1, 2, 3};

	if (piste_enabled(uses, order))
		piste(uses, order, costly(), argv[0], 9.5);
	piste(uses, bytes, bytes, sizeof(bytes), argv[0], 2);
	piste(uses, bytes, bytes, 3u, "", (size_t)0);
	in_an_inline_function(argc);
	as_a_statement(argc);
	if (argc > 5)
		piste_log(WARNING, "%d arguments, the first is %s", argc, argv[0]);
	else
		piste_log(INFO, "few arguments");
	return as_a_context();
}
