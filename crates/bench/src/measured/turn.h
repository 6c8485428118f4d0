/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a library exports whose event is recorded in each turn of the loop of `piste latency npt` (crates/latency/src/event.rs). The loop is in piste,
 * and the same for all tracers; only the library differs. It is compiled by crates/bench/src/recording.rs.
 */
#ifndef BENCH_TURN_H
#define BENCH_TURN_H

#include <stdint.h>

#ifndef PAYLOAD_BYTES
#define PAYLOAD_BYTES 4
#endif

#define TURN_EXPORTED __attribute__((visibility("default")))

/* Records an event with PAYLOAD_BYTES bytes of fields. */
void piste_bench_turn(uint32_t number);
/* Whether the tracer records it by now. */
int piste_bench_turn_is_recorded(void);

#endif
