/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contexts: records events whose fields are what their contexts should be, found out in another way. Does what its standard input says, and
 * answers each line with one, "done".
 *
 *   say           records an event
 *   log           records a formatted event
 *   rename        gives the thread another name
 *   renice        makes the thread nicer
 *   become        gives the thread other user and group ids, the saved ones too
 *   unshare       puts the thread in other namespaces
 *   thread        does the next thing in a new thread
 *   fork          does the next thing in a child
 *   signal        does the next thing in a signal handler
 *   register      registers the program's contexts
 *   unregister    unregisters them
 *   calls N       fails unless its function was called as often
 *   integer N, unsigned N, number N, string S, nothing
 *                 what they say from now on
 */
#define _GNU_SOURCE
#include <errno.h>
#include <piste/context.h>
#include <piste/tracepoint.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

PISTE_EVENT(contexts, said, (int32_t, vtid), (int32_t, vpid), (const char *, procname), (uint64_t, pthread_id),
            (void *, begin), (int32_t, nice), (int32_t, prio))
PISTE_EVENT(contexts, ids, (uint32_t, vuid), (uint32_t, veuid), (uint32_t, vsuid), (uint32_t, vgid), (uint32_t, vegid),
            (uint32_t, vsgid))
PISTE_EVENT(contexts, namespaces, (uint32_t, cgroup_ns), (uint32_t, ipc_ns), (uint32_t, mnt_ns), (uint32_t, net_ns),
            (uint32_t, pid_ns), (uint32_t, time_ns), (uint32_t, user_ns), (uint32_t, uts_ns),
            (const char *, cgroup_path))
PISTE_EVENT(contexts, inner, (int32_t, number))

static struct piste_value answer;
static char text[1024];

static uint32_t namespace_of(const char *name)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/self/task/%d/ns/%s", gettid(), name);
	return stat(path, &status) == 0 ? (uint32_t)status.st_ino : 0;
}

static void control_group(char path[4096])
{
	char line[4096];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/self/task/%d/cgroup", gettid());
	file = fopen(line, "r");
	path[0] = 0;
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "0::%4095[^\n]", path);
	if (file)
		fclose(file);
}

__attribute__((noinline)) static void say(void)
{
	char name[16], group[4096];
	uid_t uid[3];
	gid_t gid[3];
	int nice_value = getpriority(PRIO_PROCESS, 0), before;

	pthread_getname_np(pthread_self(), name, sizeof(name));
	getresuid(&uid[0], &uid[1], &uid[2]);
	getresgid(&gid[0], &gid[1], &gid[2]);
	control_group(group);
	errno = before = 4711;
	piste(contexts, said, gettid(), getpid(), name, (uint64_t)pthread_self(), (void *)(uintptr_t)say, nice_value,
	      sched_getscheduler(0) == SCHED_FIFO ? -1 - 7 : 20 + nice_value);
	piste(contexts, ids, uid[0], uid[1], uid[2], gid[0], gid[1], gid[2]);
	if (errno != before)
		abort();
	piste(contexts, namespaces, namespace_of("cgroup"), namespace_of("ipc"), namespace_of("mnt"),
	      namespace_of("net"), namespace_of("pid"), namespace_of("time"), namespace_of("user"), namespace_of("uts"),
	      group);
}

static int calls;

static void answer_asked(void *data, struct piste_value *value)
{
	calls++;
	/* An event of its own, which must not ask again. */
	piste(contexts, inner, 1);
	errno = 1;
	*value = *(struct piste_value *)data;
}

static void be_real_time(void)
{
	struct sched_param parameters = {.sched_priority = 7};

	if (sched_setscheduler(0, SCHED_FIFO, &parameters) != 0)
		exit(1);
}

static void become(void)
{
	/* Of this thread: the library's functions change all of them. */
	if (syscall(SYS_setresgid, 21, 22, 23) != 0 || syscall(SYS_setresuid, 0, 12, 0) != 0)
		exit(1);
}

static void obey(const char *line);

static char next[1100];

static void *in_thread(void *line)
{
	obey((const char *)line);
	return NULL;
}

static void in_handler(int number)
{
	(void)number;
	obey(next);
}

static void obey(const char *line)
{
	int expected_calls;
	pthread_t thread;
	pid_t child;

	if (strcmp(line, "say") == 0) {
		say();
	} else if (strcmp(line, "log") == 0) {
		piste_log(INFO, "%p", (void *)(uintptr_t)obey);
	} else if (strcmp(line, "rename") == 0) {
		pthread_setname_np(pthread_self(), "another name");
	} else if (strcmp(line, "renice") == 0) {
		setpriority(PRIO_PROCESS, 0, 5);
	} else if (strcmp(line, "realtime") == 0) {
		be_real_time();
	} else if (strcmp(line, "become") == 0) {
		become();
	} else if (strcmp(line, "unshare") == 0) {
		if (unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET) != 0)
			exit(1);
	} else if (strncmp(line, "thread ", 7) == 0) {
		pthread_create(&thread, NULL, in_thread, (void *)(line + 7));
		pthread_join(thread, NULL);
	} else if (strncmp(line, "fork ", 5) == 0) {
		child = fork();
		if (child == 0) {
			obey(line + 5);
			exit(0);
		}
		waitpid(child, NULL, 0);
	} else if (strncmp(line, "signal ", 7) == 0) {
		strcpy(next, line + 7);
		signal(SIGUSR1, in_handler);
		raise(SIGUSR1);
	} else if (strcmp(line, "register") == 0) {
		if (piste_context_register("shop", "tenant", answer_asked, &answer) != 0 ||
		    piste_context_register("shop", "tenant", answer_asked, &answer) != EEXIST ||
		    piste_context_register("", "tenant", answer_asked, NULL) != EINVAL ||
		    piste_context_register("shop", "a name that is much too long for any use of it", answer_asked,
		                           NULL) != EINVAL)
			exit(1);
	} else if (strcmp(line, "unregister") == 0) {
		if (piste_context_unregister("shop", "tenant") != 0 ||
		    piste_context_unregister("shop", "tenant") != ENOENT)
			exit(1);
	} else if (sscanf(line, "integer %ld", &answer.integer) == 1) {
		answer = piste_value_int64(answer.integer);
	} else if (sscanf(line, "unsigned %lu", &answer.unsigned_integer) == 1) {
		answer = piste_value_uint64(answer.unsigned_integer);
	} else if (sscanf(line, "number %lf", &answer.number) == 1) {
		answer = piste_value_double(answer.number);
	} else if (sscanf(line, "string %1023s", text) == 1) {
		answer = piste_value_string(text);
	} else if (sscanf(line, "calls %d", &expected_calls) == 1) {
		if (calls != expected_calls)
			exit(1);
	} else if (strcmp(line, "nothing") == 0) {
		answer.kind = PISTE_VALUE_NONE;
	} else {
		exit(1);
	}
}

int main(void)
{
	char line[1100];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		obey(line);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
