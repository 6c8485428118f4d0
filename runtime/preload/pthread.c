/* SPDX-License-Identifier: MIT */
/*
 * Preload helper `pthread`: mutexes, condition variables and read-write locks. A call that may wait makes two events: one when it
 * is made, `_req`, and one when it is over, `_acq` or `_end`, whose difference is the time waited. The forms with a timeout make the same two.
 *
 * Recorded are calls from outside of the C library, which takes its own locks without them. A call that ends because its thread is
 * cancelled has no second event.
 *
 * Takes no lock. Safe wherever the functions themselves are.
 */
#define _GNU_SOURCE
#include "real.h"

#include <piste/tracepoint.h>
#include <pthread.h>

PISTE_EVENT(lttng_ust_pthread, pthread_mutex_lock_req, (void *, mutex))
PISTE_EVENT(lttng_ust_pthread, pthread_mutex_lock_acq, (void *, mutex), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_mutex_trylock, (void *, mutex), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_mutex_unlock, (void *, mutex), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_cond_wait_req, (void *, cond), (void *, mutex))
PISTE_EVENT(lttng_ust_pthread, pthread_cond_wait_end, (void *, cond), (void *, mutex), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_cond_signal, (void *, cond))
PISTE_EVENT(lttng_ust_pthread, pthread_cond_broadcast, (void *, cond))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_rdlock_req, (void *, rwlock))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_rdlock_acq, (void *, rwlock), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_wrlock_req, (void *, rwlock))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_wrlock_acq, (void *, rwlock), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_tryrdlock, (void *, rwlock), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_trywrlock, (void *, rwlock), (int, status))
PISTE_EVENT(lttng_ust_pthread, pthread_rwlock_unlock, (void *, rwlock), (int, status))

typedef const struct timespec *time_limit;

/* The functions, by what is recorded of them. */
/* clang-format off */
#define MUTEX_TAKES(each)                                                                                              \
	each(int, pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex))                                               \
	each(int, pthread_mutex_timedlock, (pthread_mutex_t *mutex, time_limit limit), (mutex, limit))                 \
	each(int, pthread_mutex_clocklock, (pthread_mutex_t *mutex, clockid_t clock, time_limit limit),                \
	     (mutex, clock, limit))
#define MUTEX_OTHERS(each)                                                                                             \
	each(int, pthread_mutex_trylock, (pthread_mutex_t *mutex), (mutex))                                            \
	each(int, pthread_mutex_unlock, (pthread_mutex_t *mutex), (mutex))

#define COND_WAITS(each)                                                                                               \
	each(int, pthread_cond_wait, (pthread_cond_t *cond, pthread_mutex_t *mutex), (cond, mutex))                    \
	each(int, pthread_cond_timedwait, (pthread_cond_t *cond, pthread_mutex_t *mutex, time_limit limit),            \
	     (cond, mutex, limit))                                                                                     \
	each(int, pthread_cond_clockwait, (pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, time_limit limit),\
	     (cond, mutex, clock, limit))
#define COND_WAKES(each)                                                                                               \
	each(int, pthread_cond_signal, (pthread_cond_t *cond), (cond))                                                 \
	each(int, pthread_cond_broadcast, (pthread_cond_t *cond), (cond))

#define RWLOCK_READS(each)                                                                                             \
	each(int, pthread_rwlock_rdlock, (pthread_rwlock_t *rwlock), (rwlock))                                         \
	each(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t *rwlock, time_limit limit), (rwlock, limit))           \
	each(int, pthread_rwlock_clockrdlock, (pthread_rwlock_t *rwlock, clockid_t clock, time_limit limit),           \
	     (rwlock, clock, limit))
#define RWLOCK_WRITES(each)                                                                                            \
	each(int, pthread_rwlock_wrlock, (pthread_rwlock_t *rwlock), (rwlock))                                         \
	each(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t *rwlock, time_limit limit), (rwlock, limit))           \
	each(int, pthread_rwlock_clockwrlock, (pthread_rwlock_t *rwlock, clockid_t clock, time_limit limit),           \
	     (rwlock, clock, limit))
#define RWLOCK_OTHERS(each)                                                                                            \
	each(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t *rwlock), (rwlock))                                      \
	each(int, pthread_rwlock_trywrlock, (pthread_rwlock_t *rwlock), (rwlock))                                      \
	each(int, pthread_rwlock_unlock, (pthread_rwlock_t *rwlock), (rwlock))

#define FUNCTIONS(each)                                                                                                \
	MUTEX_TAKES(each) MUTEX_OTHERS(each) COND_WAITS(each) COND_WAKES(each)                                         \
	RWLOCK_READS(each) RWLOCK_WRITES(each) RWLOCK_OTHERS(each)
/* clang-format on */

PISTE_REAL_FUNCTIONS(FUNCTIONS)

/* ---- The first call ---- */

/* glibc has condition variables of two versions, and dlsym() may find those of before 2003. Where there is one version only, its own. */
#define PREFER_NEW(type, name, parameters, arguments)                                                                  \
	{                                                                                                              \
		type(*newer) parameters = __extension__(type(*) parameters) dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2");   \
		found.name = newer ? newer : found.name;                                                               \
	}

static void find_real_functions(void)
{
	struct real_functions found;

	FUNCTIONS(PISTE_REAL_FIND)
	COND_WAITS(PREFER_NEW)
	COND_WAKES(PREFER_NEW)
	FUNCTIONS(PISTE_REAL_USE)
}

static __attribute__((constructor(101))) void begin(void)
{
	find_real_functions();
}

#define FIRST(type, name, parameters, arguments)                                                                       \
	static type first_##name parameters                                                                            \
	{                                                                                                              \
		find_real_functions();                                                                                 \
		return PISTE_REAL(name) arguments;                                                                     \
	}
FUNCTIONS(FIRST)

/* ---- What the program calls ---- */

#define RECORD(event, ...) piste(lttng_ust_pthread, event, __VA_ARGS__)

#define TAKES(name, event, lock, parameters, arguments)                                                                \
	int name parameters                                                                                            \
	{                                                                                                              \
		int status;                                                                                            \
                                                                                                                       \
		RECORD(event##_req, lock);                                                                             \
		status = PISTE_REAL(name) arguments;                                                                   \
		RECORD(event##_acq, lock, status);                                                                     \
		return status;                                                                                         \
	}
#define OTHERS(name, lock, parameters, arguments)                                                                      \
	int name parameters                                                                                            \
	{                                                                                                              \
		int status = PISTE_REAL(name) arguments;                                                               \
                                                                                                                       \
		RECORD(name, lock, status);                                                                            \
		return status;                                                                                         \
	}

#define MUTEX_TAKE(type, name, parameters, arguments) TAKES(name, pthread_mutex_lock, mutex, parameters, arguments)
MUTEX_TAKES(MUTEX_TAKE)
#define MUTEX_OTHER(type, name, parameters, arguments) OTHERS(name, mutex, parameters, arguments)
MUTEX_OTHERS(MUTEX_OTHER)

#define RWLOCK_READ(type, name, parameters, arguments) TAKES(name, pthread_rwlock_rdlock, rwlock, parameters, arguments)
RWLOCK_READS(RWLOCK_READ)
#define RWLOCK_WRITE(type, name, parameters, arguments)                                                                \
	TAKES(name, pthread_rwlock_wrlock, rwlock, parameters, arguments)
RWLOCK_WRITES(RWLOCK_WRITE)
#define RWLOCK_OTHER(type, name, parameters, arguments) OTHERS(name, rwlock, parameters, arguments)
RWLOCK_OTHERS(RWLOCK_OTHER)

#define COND_WAIT(type, name, parameters, arguments)                                                                   \
	int name parameters                                                                                            \
	{                                                                                                              \
		int status;                                                                                            \
                                                                                                                       \
		RECORD(pthread_cond_wait_req, cond, mutex);                                                            \
		status = PISTE_REAL(name) arguments;                                                                   \
		RECORD(pthread_cond_wait_end, cond, mutex, status);                                                    \
		return status;                                                                                         \
	}
COND_WAITS(COND_WAIT)

/* Recorded before it is done, so that the cause comes before the end of the wait. */
#define COND_WAKE(type, name, parameters, arguments)                                                                   \
	int name parameters                                                                                            \
	{                                                                                                              \
		RECORD(name, cond);                                                                                    \
		return PISTE_REAL(name) arguments;                                                                     \
	}
COND_WAKES(COND_WAKE)
