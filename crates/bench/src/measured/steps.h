/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the events that end early (step.h) and the program that they are part of (steps.c) have in common. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdint.h>

struct piste_view;

/* Each records `count` events that end after the step that the function is named after. */
void record_callback(uint64_t first, uint64_t count);
void record_lookup(uint64_t first, uint64_t count);
void record_clock(uint64_t first, uint64_t count);
void record_reserve(uint64_t first, uint64_t count);
void record_write(uint64_t first, uint64_t count);

/* So many events may follow each other before holes are marked: a fraction of a sub-buffer. */
#define HOLES_MAX 4096

/* Marks what was reserved and not committed in the ring of this index, which `view` leads to, as if it were padding. */
void mark_holes(const struct piste_view *view, uint64_t index);
/* Ends the program, which would measure something else. */
_Noreturn void give_up(const char *reason);

#endif
