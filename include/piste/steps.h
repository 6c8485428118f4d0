/* SPDX-License-Identifier: MIT */
/*
 * Marks where each step of the fast path (ring.h, tracepoint.h) ends. `piste bench` measures how much of an event's time each step takes.
 * Reading a clock around a step would take longer than the step, so the benchmark compiles the path several times, each time with
 * PISTE_LAST_STEP set to the step after which the path ends (crates/bench/src/measured/step.h). Programs do not set it, and these macros
 * then expand to nothing.
 *
 * A path that ends early records nothing. It ends with a jump. The compiler does not know that the jump is always taken, so it keeps the
 * rest of the path and everything that the earlier steps compute for the later ones. Only the jump is added.
 */
#ifndef PISTE_STEPS_H
#define PISTE_STEPS_H

#ifdef PISTE_LAST_STEP

enum piste_step {
	PISTE_STEP_CALLBACK, /* Testing whether the event is recorded, and the call. */
	PISTE_STEP_LOOKUP,   /* Finding the ring of this CPU and its position. */
	PISTE_STEP_CLOCK,    /* Reading the clock, and testing whether the ring's window is open. */
	PISTE_STEP_RESERVE,  /* Testing whether there is space, and moving the position. */
	PISTE_STEP_WRITE,    /* Writing the header and the fields. */
};

/* "memory": the compiler must perform all earlier stores before the jump. */
#define PISTE_END_AFTER(step)                                                                                          \
	do {                                                                                                           \
		if ((step) == PISTE_LAST_STEP)                                                                         \
			__asm__ goto("jmp %l0" : : : "memory" : piste_ended);                                          \
	} while (0)
/* The target of the jumps, at the end of a function. */
#define PISTE_WHERE_ENDED(...)                                                                                         \
	piste_ended:                                                                                                   \
	__attribute__((unused));                                                                                       \
	__VA_ARGS__
/* If there are units but no cursor, the path has ended in piste_reserve(). */
#define PISTE_RETURN_IF_ENDED(space)                                                                                   \
	if (!(space).cursor && (space).units != 0)                                                                     \
		return;

#else

#define PISTE_END_AFTER(step) ((void)0)
#define PISTE_WHERE_ENDED(...)
#define PISTE_RETURN_IF_ENDED(space)

#endif

#endif
