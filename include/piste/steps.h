/* SPDX-License-Identifier: MIT */
/*
 * Where each step of the fast path (ring.h, tracepoint.h) ends. `piste bench` measures how much of an event's time each step takes. A clock
 * around a step would take longer than the step does, so the benchmark compiles the path several times, each time with PISTE_LAST_STEP
 * set to the step after which the path ends (crates/bench/src/measured/step.h). Programs do not set it; for them, nothing is here.
 *
 * A path that ends early records nothing. It leaves by a jump that the compiler believes may not be taken, so the compiler keeps the
 * rest of the path, and with it everything that the earlier steps compute for the later ones. The jump is all that is added.
 */
#ifndef PISTE_STEPS_H
#define PISTE_STEPS_H

#ifdef PISTE_LAST_STEP

enum piste_step {
	PISTE_STEP_CALLBACK, /* The test whether the event is recorded, and the call. */
	PISTE_STEP_LOOKUP,   /* The ring of this CPU and its position. */
	PISTE_STEP_CLOCK,    /* Reading the clock, and whether the ring's window is open at that time. */
	PISTE_STEP_RESERVE,  /* Whether there is space, and moving the position. */
	PISTE_STEP_WRITE,    /* The header and the fields. */
};

/* "memory": what was stored before is stored. */
#define PISTE_END_AFTER(step)                                                                                          \
	do {                                                                                                           \
		if ((step) == PISTE_LAST_STEP)                                                                         \
			__asm__ goto("jmp %l0" : : : "memory" : piste_ended);                                          \
	} while (0)
/* At the end of a function, where the jumps lead. */
#define PISTE_WHERE_ENDED(...)                                                                                         \
	piste_ended:                                                                                                   \
	__attribute__((unused));                                                                                       \
	__VA_ARGS__
/* piste_reserve() has ended if there are units and no cursor. */
#define PISTE_RETURN_IF_ENDED(space)                                                                                   \
	if (!(space).cursor && (space).units != 0)                                                                     \
		return;

#else

#define PISTE_END_AFTER(step) ((void)0)
#define PISTE_WHERE_ENDED(...)
#define PISTE_RETURN_IF_ENDED(space)

#endif

#endif
