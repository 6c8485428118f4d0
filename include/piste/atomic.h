/* SPDX-License-Identifier: MIT */
/*
 * Atomic access with the builtins that gcc and clang support in both C and C++. They are used on memory that another process maps, too,
 * because the layout of C's `_Atomic` types is not specified.
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

/* Placed at the start of a branch, it prevents the compiler from replacing the branch with arithmetic. The code that follows would
 * otherwise have to wait for the condition. */
#define piste_keep_branch() __asm__ volatile("")

/* The writers of a ring reuse space after the consumer, which is another process, has released it, or after they have read its marks,
 * many at a time. ThreadSanitizer cannot see this order, so these macros declare it. It also reports plain stores that are read
 * concurrently on purpose; under ThreadSanitizer, these are therefore atomic stores. The same applies to plain loads that the compiler
 * can make an operand of the instruction that uses the value, which it does not do with atomic loads. */
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
