/* SPDX-License-Identifier: MIT */
/*
 * Contexts beyond thread id and CPU: what a channel records of the thread, the process and the program beside each event.
 *
 * They are evaluated before the record is reserved, in a buffer of the general path, so they may take long: most cost a system call. Each is asked
 * for anew with each event, because nobody says when it changes. What cannot be known is recorded as what enum piste_context_kind says.
 * All of it is safe in signal handlers, if the program's own functions are, and keeps errno.
 *
 * ORDER provided.function   piste_context_unregister(): store, then load `running` | value_of(): add to `running`, then load; all seq_cst
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <piste/context.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A context that the program provides. It is never freed: a thread may be about to ask it. */
struct provided {
	struct provided *next;
	piste_context_function *function; /* NULL: it was unregistered. */
	void *data;
	int32_t running; /* Calls of `function`. */
	char name[PISTE_CONTEXT_NAME_BYTES];
};

static struct provided *first_provided;

/* In a function of the program: events that it records see no contexts of the program. Initial-exec: as in thread.c. */
static __thread bool is_asking __attribute__((tls_model("initial-exec")));

static uint8_t *put(uint8_t *cursor, const void *value, size_t bytes)
{
	memcpy(cursor, value, bytes);
	return cursor + bytes;
}

static uint8_t *put_int32(uint8_t *cursor, int64_t value)
{
	int32_t narrow = (int32_t)value;

	return put(cursor, &narrow, sizeof(narrow));
}

static uint8_t *put_uint32(uint8_t *cursor, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	return put(cursor, &narrow, sizeof(narrow));
}

static uint8_t *put_uint64(uint8_t *cursor, uint64_t value)
{
	return put(cursor, &value, sizeof(value));
}

/* A text that is too long is cut, and then ends in "...". */
static uint8_t *put_string(uint8_t *cursor, const char *text, size_t bytes)
{
	static const char cut[] = "...";

	if (bytes < PISTE_CONTEXT_TEXT_BYTES)
		return put(put(cursor, text, bytes), "", 1);
	return put(put(cursor, text, PISTE_CONTEXT_TEXT_BYTES - sizeof(cut)), cut, sizeof(cut));
}

/* ---- The thread and its process ---- */

static uint8_t *put_comm(uint8_t *cursor)
{
	char name[PISTE_CONTEXT_COMM_BYTES] = {0};

	prctl(PR_GET_NAME, name);
	return put(cursor, name, sizeof(name));
}

/* The system calls themselves: the C library's getpriority() cannot tell -1 from an error, and knows no thread. */
static int64_t current_nice(void)
{
	return 20 - syscall(SYS_getpriority, PRIO_PROCESS, 0);
}

static int64_t current_priority(void)
{
	struct sched_param parameters = {0};

	switch (syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK) {
	case SCHED_FIFO:
	case SCHED_RR:
		syscall(SYS_sched_getparam, 0, &parameters);
		return -1 - parameters.sched_priority;
	case 6: /* SCHED_DEADLINE, which older headers do not know. */
		return -101;
	default:
		return 20 + current_nice();
	}
}

static uint32_t user_or_group_id(uint32_t kind)
{
	/* In the order of the kinds. */
	uint32_t ids[6] = {0};

	if (kind <= PISTE_CONTEXT_VSUID)
		syscall(SYS_getresuid, &ids[0], &ids[1], &ids[2]);
	else
		syscall(SYS_getresgid, &ids[3], &ids[4], &ids[5]);
	return ids[kind - PISTE_CONTEXT_VUID];
}

static uint64_t namespace_of(uint32_t kind)
{
	static const char paths[][32] = {
	        "/proc/thread-self/ns/cgroup", "/proc/thread-self/ns/ipc", "/proc/thread-self/ns/mnt",
	        "/proc/thread-self/ns/net",    "/proc/thread-self/ns/pid", "/proc/thread-self/ns/time",
	        "/proc/thread-self/ns/user",   "/proc/thread-self/ns/uts",
	};
	struct stat status;

	return stat(paths[kind - PISTE_CONTEXT_CGROUP_NS], &status) == 0 ? (uint64_t)status.st_ino : 0;
}

/* The line of version 2 comes last, and begins with "0::". The system calls themselves: a thread can be cancelled in the C library's open(),
 * read() and close(), but not while it records. */
static uint8_t *put_control_group(uint8_t *cursor)
{
	int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/cgroup", O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t bytes = 0;
	char *line, *end;

	if (file >= 0) {
		bytes = syscall(SYS_read, file, text, sizeof(text) - 1);
		syscall(SYS_close, file);
	}
	text[bytes > 0 ? bytes : 0] = 0;
	line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line)
		return put_string(cursor, "", 0);
	line = strchr(line, '/');
	end = line ? strchrnul(line, '\n') : NULL;
	return line ? put_string(cursor, line, (size_t)(end - line)) : put_string(cursor, "", 0);
}

static uint64_t usage(uint64_t which)
{
	struct rusage usage = {0};
	struct timespec time = {0};

	if (which == PISTE_USAGE_TASK_CLOCK) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
		return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	}
	getrusage(RUSAGE_THREAD, &usage);
	switch (which) {
	case PISTE_USAGE_PAGE_FAULTS:
		return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
	case PISTE_USAGE_MINOR_FAULTS:
		return (uint64_t)usage.ru_minflt;
	case PISTE_USAGE_MAJOR_FAULTS:
		return (uint64_t)usage.ru_majflt;
	default:
		return (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
	}
}

/* ---- What the program provides ---- */

static struct provided *find_provided(const char *name)
{
	struct provided *provided = piste_load_acquire(&first_provided);

	while (provided && strncmp(provided->name, name, sizeof(provided->name)) != 0)
		provided = provided->next;
	return provided;
}

static struct piste_value value_of(struct provided *provided)
{
	struct piste_value value = {PISTE_VALUE_NONE, {0}};
	piste_context_function *function;

	if (!provided || is_asking)
		return value;
	__atomic_add_fetch(&provided->running, 1, __ATOMIC_SEQ_CST);
	function = __atomic_load_n(&provided->function, __ATOMIC_SEQ_CST);
	if (function) {
		is_asking = true;
		function(provided->data, &value);
		is_asking = false;
	}
	__atomic_sub_fetch(&provided->running, 1, __ATOMIC_SEQ_CST);
	return value;
}

static uint8_t *put_dynamic(uint8_t *cursor, struct piste_value value)
{
	uint8_t kind = PISTE_DYNAMIC_NONE;

	switch (value.kind) {
	case PISTE_VALUE_INT64:
		kind = PISTE_DYNAMIC_INT64;
		break;
	case PISTE_VALUE_UINT64:
		kind = PISTE_DYNAMIC_UINT64;
		break;
	case PISTE_VALUE_DOUBLE:
		kind = PISTE_DYNAMIC_FLOAT64;
		break;
	case PISTE_VALUE_STRING:
		if (!value.string)
			break;
		*cursor = PISTE_DYNAMIC_STRING;
		return put_string(cursor + 1, value.string, strnlen(value.string, PISTE_CONTEXT_TEXT_BYTES));
	default:
		break;
	}
	*cursor++ = kind;
	return kind == PISTE_DYNAMIC_NONE ? cursor : put_uint64(cursor, value.unsigned_integer);
}

static bool name_provided(char name[PISTE_CONTEXT_NAME_BYTES], const char *provider, const char *context)
{
	size_t provider_bytes = strnlen(provider, PISTE_CONTEXT_NAME_BYTES),
	       bytes = strnlen(context, PISTE_CONTEXT_NAME_BYTES);

	if (provider_bytes == 0 || bytes == 0 || provider_bytes + 1 + bytes >= PISTE_CONTEXT_NAME_BYTES)
		return false;
	memset(name, 0, PISTE_CONTEXT_NAME_BYTES);
	memcpy(name, provider, provider_bytes);
	name[provider_bytes] = ':';
	memcpy(name + provider_bytes + 1, context, bytes);
	return true;
}

int piste_context_register(const char *provider, const char *name, piste_context_function *function, void *data)
{
	char full_name[PISTE_CONTEXT_NAME_BYTES];
	struct provided *provided;
	sigset_t before;
	int error = 0;

	if (!provider || !name || !function || !name_provided(full_name, provider, name))
		return EINVAL;
	piste_lock(&before);
	provided = find_provided(full_name);
	if (provided && provided->function) {
		error = EEXIST;
	} else if (provided) {
		provided->data = data;
		__atomic_store_n(&provided->function, function, __ATOMIC_SEQ_CST);
	} else if (!(provided = piste_take_memory(sizeof(*provided)))) {
		error = ENOMEM;
	} else {
		memcpy(provided->name, full_name, sizeof(provided->name));
		provided->function = function;
		provided->data = data;
		provided->next = first_provided;
		piste_store_release(&first_provided, provided);
	}
	piste_unlock(&before);
	return error;
}

int piste_context_unregister(const char *provider, const char *name)
{
	char full_name[PISTE_CONTEXT_NAME_BYTES];
	struct provided *provided = NULL;

	if (provider && name && name_provided(full_name, provider, name))
		provided = find_provided(full_name);
	if (!provided || !__atomic_exchange_n(&provided->function, NULL, __ATOMIC_SEQ_CST))
		return ENOENT;
	while (__atomic_load_n(&provided->running, __ATOMIC_SEQ_CST) > 0)
		sched_yield();
	return 0;
}

void piste_contexts_forked(void)
{
	/* Other threads were in these calls. */
	for (struct provided *provided = first_provided; provided; provided = provided->next)
		provided->running = is_asking ? provided->running : 0;
}

/* ---- All of a channel's ---- */

static uint32_t longest_bytes(uint32_t kind)
{
	switch (kind) {
	case PISTE_CONTEXT_PROCNAME:
		return PISTE_CONTEXT_COMM_BYTES;
	case PISTE_CONTEXT_PTHREAD_ID:
	case PISTE_CONTEXT_IP:
	case PISTE_CONTEXT_USAGE:
		return 8;
	case PISTE_CONTEXT_COUNTER:
		return 9;
	case PISTE_CONTEXT_CGROUP_PATH:
		return PISTE_CONTEXT_TEXT_BYTES;
	case PISTE_CONTEXT_APPLICATION:
		return 1 + PISTE_CONTEXT_TEXT_BYTES;
	default:
		return 4;
	}
}

bool piste_contexts_are_known(const struct piste_context *contexts, uint32_t count)
{
	uint32_t bytes = 0;

	if (count > PISTE_MORE_COUNT_MAX)
		return false;
	for (uint32_t index = 0; index < count; index++) {
		const struct piste_context *context = &contexts[index];

		if (context->kind < PISTE_CONTEXT_VPID || context->kind > PISTE_CONTEXT_KIND_LAST ||
		    (context->kind == PISTE_CONTEXT_USAGE && context->config > PISTE_USAGE_LAST) ||
		    context->name[sizeof(context->name) - 1] != 0)
			return false;
		bytes += longest_bytes(context->kind);
	}
	return bytes <= PISTE_MORE_BYTES_MAX;
}

static uint8_t *put_context(uint8_t *cursor, const struct piste_context *context, const void *ip)
{
	switch (context->kind) {
	case PISTE_CONTEXT_VPID:
		return put_int32(cursor, getpid());
	case PISTE_CONTEXT_PROCNAME:
		return put_comm(cursor);
	case PISTE_CONTEXT_PTHREAD_ID:
		return put_uint64(cursor, (uint64_t)pthread_self());
	case PISTE_CONTEXT_IP:
		return put_uint64(cursor, (uint64_t)(uintptr_t)ip);
	case PISTE_CONTEXT_NICE:
		return put_int32(cursor, current_nice());
	case PISTE_CONTEXT_PRIO:
		return put_int32(cursor, current_priority());
	case PISTE_CONTEXT_CGROUP_PATH:
		return put_control_group(cursor);
	case PISTE_CONTEXT_USAGE:
		return put_uint64(cursor, usage(context->config));
	case PISTE_CONTEXT_COUNTER:
		return put_dynamic(cursor, piste_counter_value(context->type, context->config));
	case PISTE_CONTEXT_APPLICATION:
		return put_dynamic(cursor, value_of(find_provided((const char *)context->name)));
	default:
		break;
	}
	if (context->kind >= PISTE_CONTEXT_VUID && context->kind <= PISTE_CONTEXT_VSGID)
		return put_uint32(cursor, user_or_group_id(context->kind));
	if (context->kind >= PISTE_CONTEXT_CGROUP_NS && context->kind <= PISTE_CONTEXT_UTS_NS)
		return put_uint32(cursor, namespace_of(context->kind));
	return cursor; /* The channel went meanwhile. */
}

void piste_context_write(const struct piste_context *context, uint8_t bytes[PISTE_CONTEXT_TEXT_BYTES])
{
	int saved_errno = errno;

	put_context(bytes, context, NULL);
	errno = saved_errno;
}

uint32_t piste_contexts_write(const struct piste_channel *channel, const void *ip, uint8_t bytes[PISTE_MORE_BYTES_MAX])
{
	int saved_errno = errno;
	uint8_t *cursor = bytes;

	for (uint32_t index = 0; index < channel->more_count; index++)
		cursor = put_context(cursor, &channel->more[index], ip);
	errno = saved_errno;
	return (uint32_t)(cursor - bytes);
}
