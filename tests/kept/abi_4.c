/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * abi_4 COUNT: waits until kept:whole is enabled, then records each of its events COUNT times, with numbers from 0 on. See README.md.
 */
#include <piste/context.h>
#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

PISTE_EVENT(kept, whole, (int32_t, number))
PISTE_EVENT(kept, filtered, (uint16_t, number), PISTE_NOWRITE(int64_t, cost_ns), (const char *, text))
PISTE_EVENT(kept, many, PISTE_ARRAY(uint8_t, bytes, 4), PISTE_SEQUENCE(int32_t, numbers), (double, share))

static void turn_of(void *data, struct piste_value *value)
{
	*value = piste_value_int64(*(const int32_t *)data);
}

int main(int count, char **arguments)
{
	int32_t number = 0, end = count > 1 ? atoi(arguments[1]) : 1;

	if (piste_context_register("kept", "turn", turn_of, &number) != 0)
		return 1;
	while (!piste_enabled(kept, whole))
		usleep(1000);
	for (; number < end; number++) {
		const uint8_t bytes[4] = {1, 2, 3, (uint8_t)number};
		const int32_t numbers[3] = {number, -number, 7};

		piste(kept, whole, number);
		piste(kept, filtered, (uint16_t)number, number * INT64_C(1000), "some text");
		piste(kept, many, bytes, numbers, (size_t)(number % 4), number / 2.0);
		piste_printf("formatted %d", number);
	}
	return piste_context_unregister("kept", "turn") != 0;
}
