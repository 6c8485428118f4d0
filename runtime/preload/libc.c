/* SPDX-License-Identifier: MIT */
/*
 * Preload helper `libc`: the memory that a program takes from and gives back to its heap, whichever library provides the heap.
 *
 * One event for each call from outside of the heap: a function that is built upon another one here is recorded once, as what was
 * called. strdup, getline and so on of the C library, and C++'s operator new, call our malloc and are seen as that. A program that
 * has a malloc in itself is not seen, because the dynamic linker takes the program's.
 *
 * With WITH_CALLERS it is the helper `libc-callers`: each event ends with `ip`, where the call returns to.
 *
 * Takes no lock, and allocates nothing but what it is asked for. Safe wherever the heap itself is.
 */
#define _GNU_SOURCE
#include "real.h"

#include <errno.h>
#include <piste/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef WITH_CALLERS
#define EVENT(name, ...)          PISTE_EVENT(lttng_ust_libc, name, __VA_ARGS__, (void *, ip))
#define RECORD(name, caller, ...) piste(lttng_ust_libc, name, __VA_ARGS__, caller)
#else
#define EVENT(name, ...)          PISTE_EVENT(lttng_ust_libc, name, __VA_ARGS__)
#define RECORD(name, caller, ...) piste(lttng_ust_libc, name, __VA_ARGS__)
#endif
#define CALLER __builtin_return_address(0)

EVENT(malloc, (size_t, size), (void *, ptr))
EVENT(calloc, (size_t, nmemb), (size_t, size), (void *, ptr))
EVENT(realloc, (void *, in_ptr), (size_t, size), (void *, ptr))
EVENT(free, (void *, ptr))
EVENT(memalign, (size_t, alignment), (size_t, size), (void *, ptr))
EVENT(posix_memalign, (void *, out_ptr), (size_t, alignment), (size_t, size), (int, result))

/* clang-format off */
#define FUNCTIONS(each)                                                                                                \
	each(void *, malloc, (size_t size), (size))                                                                    \
	each(void *, calloc, (size_t count, size_t size), (count, size))                                               \
	each(void *, realloc, (void *pointer, size_t size), (pointer, size))                                           \
	each(void, free, (void *pointer), (pointer))                                                                   \
	each(void *, memalign, (size_t alignment, size_t size), (alignment, size))                                     \
	each(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))                                \
	each(int, posix_memalign, (void **pointer, size_t alignment, size_t size), (pointer, alignment, size))         \
	each(void *, valloc, (size_t size), (size))                                                                    \
	each(void *, pvalloc, (size_t size), (size))
/* clang-format on */

PISTE_REAL_FUNCTIONS(FUNCTIONS)

/* How many functions of the heap this thread is in. The program's own call is made at depth 0. Touched around the real function only:
 * what a signal handler calls while we record is recorded. */
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

/* ---- Early memory: for dlsym(), which may allocate while it looks for malloc ---- */

#define EARLY_ALIGNMENT 16u

/* Zero when given out, and never given out again. */
static _Alignas(4096) uint8_t early_heap[16384];
static size_t early_heap_used;

/* In front of each block. */
struct early_block {
	size_t bytes;
	size_t reserved;
};
_Static_assert(sizeof(struct early_block) == EARLY_ALIGNMENT, "a block keeps the alignment");

static bool is_early(const void *pointer)
{
	return piste_unlikely((uintptr_t)pointer - (uintptr_t)early_heap < sizeof(early_heap));
}

static void *early_allocate(size_t alignment, size_t bytes)
{
	struct early_block *block;
	size_t start, end, needed;

	if (alignment < EARLY_ALIGNMENT)
		alignment = EARLY_ALIGNMENT;
	needed = sizeof(*block) + alignment - 1 + bytes;
	if (alignment > sizeof(early_heap) || bytes > sizeof(early_heap)) {
		errno = ENOMEM;
		return NULL;
	}
	/* Relaxed: a block is used by who took it. */
	start = __atomic_fetch_add(&early_heap_used, needed, __ATOMIC_RELAXED);
	end = start + needed;
	if (end < start || end > sizeof(early_heap)) {
		errno = ENOMEM;
		return NULL;
	}
	start = ((uintptr_t)early_heap + start + sizeof(*block) + alignment - 1) / alignment * alignment -
	        (uintptr_t)early_heap;
	block = (struct early_block *)(early_heap + start) - 1;
	block->bytes = bytes;
	return early_heap + start;
}

/* realloc() of an early block, into `to`. */
static void *early_move(void *to, const void *from, size_t bytes)
{
	size_t bytes_before = from ? ((const struct early_block *)from - 1)->bytes : 0;

	if (to && from)
		memcpy(to, from, bytes < bytes_before ? bytes : bytes_before);
	return to;
}

/* ---- The first call ---- */

/* False: this call comes from dlsym(), out of the search itself. */
static bool find_real_functions(void)
{
	static __thread bool searching __attribute__((tls_model("initial-exec")));
	struct real_functions found;
	int errno_before = errno;

	if (searching)
		return false;
	searching = true;
	FUNCTIONS(PISTE_REAL_FIND)
	FUNCTIONS(PISTE_REAL_USE)
	searching = false;
	errno = errno_before;
	return true;
}

static __attribute__((constructor(101))) void begin(void)
{
	find_real_functions();
}

static void *first_malloc(size_t size)
{
	return find_real_functions() ? PISTE_REAL(malloc)(size) : early_allocate(EARLY_ALIGNMENT, size);
}

static void *first_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (find_real_functions())
		return PISTE_REAL(calloc)(count, size);
	return early_allocate(EARLY_ALIGNMENT, __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes);
}

static void *first_realloc(void *pointer, size_t size)
{
	if (find_real_functions())
		return PISTE_REAL(realloc)(pointer, size);
	return early_move(early_allocate(EARLY_ALIGNMENT, size), pointer, size);
}

/* Out of the search there is only early memory, which is not given back. */
static void first_free(void *pointer)
{
	if (find_real_functions())
		PISTE_REAL(free)(pointer);
}

static void *first_memalign(size_t alignment, size_t size)
{
	return find_real_functions() ? PISTE_REAL(memalign)(alignment, size) : early_allocate(alignment, size);
}

static void *first_aligned_alloc(size_t alignment, size_t size)
{
	return find_real_functions() ? PISTE_REAL(aligned_alloc)(alignment, size) : early_allocate(alignment, size);
}

static int first_posix_memalign(void **pointer, size_t alignment, size_t size)
{
	if (find_real_functions())
		return PISTE_REAL(posix_memalign)(pointer, alignment, size);
	*pointer = early_allocate(alignment, size);
	return *pointer ? 0 : ENOMEM;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void *first_valloc(size_t size)
{
	return find_real_functions() ? PISTE_REAL(valloc)(size) : early_allocate(page_bytes(), size);
}

static void *first_pvalloc(size_t size)
{
	return find_real_functions() ? PISTE_REAL(pvalloc)(size) : early_allocate(page_bytes(), size);
}

/* ---- What the program calls ---- */

void *malloc(size_t size)
{
	void *ptr;

	depth++;
	ptr = PISTE_REAL(malloc)(size);
	if (--depth == 0)
		RECORD(malloc, CALLER, size, ptr);
	return ptr;
}

void *calloc(size_t count, size_t size)
{
	void *ptr;

	depth++;
	ptr = PISTE_REAL(calloc)(count, size);
	if (--depth == 0)
		RECORD(calloc, CALLER, count, size, ptr);
	return ptr;
}

static inline void *reallocate(void *in_ptr, size_t size, void *caller)
{
	void *ptr;

	(void)caller;
	depth++;
	if (is_early(in_ptr))
		ptr = early_move(PISTE_REAL(malloc)(size), in_ptr, size);
	else
		ptr = PISTE_REAL(realloc)(in_ptr, size);
	if (--depth == 0)
		RECORD(realloc, caller, in_ptr, size, ptr);
	return ptr;
}

void *realloc(void *in_ptr, size_t size)
{
	return reallocate(in_ptr, size, CALLER);
}

/* As the C library does it. Other heaps have one of their own that does not call realloc by its name. */
void *reallocarray(void *in_ptr, size_t count, size_t size)
{
	size_t bytes;

	return reallocate(in_ptr, __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes, CALLER);
}

/* Recorded before it is done: afterwards another thread may have been given the same address, and recorded that. */
void free(void *ptr)
{
	if (is_early(ptr))
		return;
	if (depth == 0)
		RECORD(free, CALLER, ptr);
	depth++;
	PISTE_REAL(free)(ptr);
	depth--;
}

void *memalign(size_t alignment, size_t size)
{
	void *ptr;

	depth++;
	ptr = PISTE_REAL(memalign)(alignment, size);
	if (--depth == 0)
		RECORD(memalign, CALLER, alignment, size, ptr);
	return ptr;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	void *ptr;

	depth++;
	ptr = PISTE_REAL(aligned_alloc)(alignment, size);
	if (--depth == 0)
		RECORD(memalign, CALLER, alignment, size, ptr);
	return ptr;
}

int posix_memalign(void **out_ptr, size_t alignment, size_t size)
{
	int result;

	depth++;
	result = PISTE_REAL(posix_memalign)(out_ptr, alignment, size);
	/* Where it fails, what stands in *out_ptr is nobody's. */
	if (--depth == 0)
		RECORD(posix_memalign, CALLER, result == 0 ? *out_ptr : NULL, alignment, size, result);
	return result;
}

void *valloc(size_t size)
{
	void *ptr;

	depth++;
	ptr = PISTE_REAL(valloc)(size);
	if (--depth == 0)
		RECORD(memalign, CALLER, page_bytes(), size, ptr);
	return ptr;
}

void *pvalloc(size_t size)
{
	void *ptr;

	depth++;
	ptr = PISTE_REAL(pvalloc)(size);
	if (--depth == 0)
		RECORD(memalign, CALLER, page_bytes(), size, ptr);
	return ptr;
}
