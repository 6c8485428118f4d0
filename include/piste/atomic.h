/* SPDX-License-Identifier: MIT */
/*
 * Atomic access with the builtins that gcc and clang share in C and C++. Used on memory that another process maps too, for which the
 * `_Atomic` types of C have no agreed layout.
 */
#ifndef PISTE_ATOMIC_H
#define PISTE_ATOMIC_H

#define piste_load_relaxed(place)           __atomic_load_n((place), __ATOMIC_RELAXED)
#define piste_load_acquire(place)           __atomic_load_n((place), __ATOMIC_ACQUIRE)
#define piste_store_relaxed(place, value)   __atomic_store_n((place), (value), __ATOMIC_RELAXED)
#define piste_store_release(place, value)   __atomic_store_n((place), (value), __ATOMIC_RELEASE)
#define piste_add_relaxed(place, value)     __atomic_fetch_add((place), (value), __ATOMIC_RELAXED)
#define piste_add_release(place, value)     __atomic_fetch_add((place), (value), __ATOMIC_RELEASE)
#define piste_or_relaxed(place, value)      __atomic_fetch_or((place), (value), __ATOMIC_RELAXED)
#define piste_swap_if(place, expected, new) /* acquire and release; `*expected` becomes the value found */             \
	__atomic_compare_exchange_n((place), (expected), (new), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#define piste_likely(condition)   __builtin_expect(!!(condition), 1)
#define piste_unlikely(condition) __builtin_expect(!!(condition), 0)

/* Keeps a branch a branch: placed at the start of the branch, it stops the compiler from turning the branch into arithmetic, which
 * would make the code that follows wait for the condition. */
#define piste_keep_branch() __asm__ volatile("")

/* A ring's writers reuse space after the consumer, which is another process, has released it, or after they have read its marks, many
 * at a time. ThreadSanitizer cannot see this order, so these macros declare it. It also reports plain stores that are read
 * concurrently on purpose, so with it, atomic stores replace them. The same goes for a load that can be an operand of the instruction
 * that uses the value, which compilers do not make of an atomic one. */
#if defined(__SANITIZE_THREAD__)
#define PISTE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PISTE_THREAD_SANITIZER 1
#endif
#endif
#ifdef PISTE_THREAD_SANITIZER
#ifdef __cplusplus
extern "C" {
#endif
void __tsan_acquire(void *place);
void __tsan_release(void *place);
#ifdef __cplusplus
}
#endif
#define piste_load_operand(place)    piste_load_relaxed(place)
#define piste_tell_space_given(ring) __tsan_release(ring)
#define piste_tell_space_taken(ring) __tsan_acquire(ring)
#define PISTE_PLAIN_STORES           0
#else
#define piste_load_operand(place)    (*(place))
#define PISTE_PLAIN_STORES           1
#define piste_tell_space_given(ring) ((void)0)
#define piste_tell_space_taken(ring) ((void)0)
#endif

#endif
