/* SPDX-License-Identifier: MIT */
/*
 * Atomic access by the compilers' builtins, which gcc and clang share in C and C++. Used on memory that another process maps too,
 * where C's `_Atomic` types have no agreed layout.
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
#define piste_swap_if(place, expected, new) /* acquire and release; `*expected` becomes what was found */              \
	__atomic_compare_exchange_n((place), (expected), (new), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#define piste_likely(condition)   __builtin_expect(!!(condition), 1)
#define piste_unlikely(condition) __builtin_expect(!!(condition), 0)

/* Keeps a branch a branch: at its start it stops the compiler from turning the branch into arithmetic, which would make what
 * follows wait for the condition. */
#define piste_keep_branch() __asm__ volatile("")

/* Space comes back to a ring's writers through the consumer, another process, or through marks read many at a time: order that
 * ThreadSanitizer cannot see, so it is told. Nor does it accept plain stores that somebody reads meanwhile, on purpose. */
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
#define piste_tell_space_given(ring) __tsan_release(ring)
#define piste_tell_space_taken(ring) __tsan_acquire(ring)
#define PISTE_PLAIN_STORES           0
#else
#define PISTE_PLAIN_STORES           1
#define piste_tell_space_given(ring) ((void)0)
#define piste_tell_space_taken(ring) ((void)0)
#endif

#endif
