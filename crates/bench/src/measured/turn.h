/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a library exports whose event is recorded in each turn of the loops of `piste latency npt` and `piste latency event`
 * (crates/latency/src/event.rs). The loops are in piste, and the same for all tracers; only the library differs. It is compiled by
 * crates/bench/src/recording.rs.
 */
#ifndef BENCH_TURN_H
#define BENCH_TURN_H

#include <stdint.h>

#ifndef PAYLOAD_BYTES
#define PAYLOAD_BYTES 4
#endif

#define TURN_EXPORTED __attribute__((visibility("default")))

/* Records an event with PAYLOAD_BYTES bytes of fields; if there are 4 of them, they are the number, which tells events in a trace apart. */
void piste_bench_turn(uint32_t number);
/* Whether the tracer records it by now. */
int piste_bench_turn_is_recorded(void);

#endif
