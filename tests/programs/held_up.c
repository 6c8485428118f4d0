/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * held_up: a program whose runtime thread can be stopped while its other thread goes on. Does what its standard input says and answers
 * each line with one, "done".
 *
 *   record N      records N events, numbered from 0 on
 *   hole          reserves a record and never commits it
 *   begin         reserves the record of the next event
 *   end           commits it
 *   hold          stops the runtime thread, as a debugger would
 *   release       lets it go on
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <piste/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

PISTE_EVENT(held_up, tick, (uint64_t, number))

static int to_holder[2], from_holder[2];

/* The program has one thread of its own. */
static pid_t runtime_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	pid_t found = 0;

	while (tasks && (task = readdir(tasks)))
		if (atoi(task->d_name) > 0 && atoi(task->d_name) != getpid())
			found = atoi(task->d_name);
	if (tasks)
		closedir(tasks);
	return found;
}

static void hold_until_told(pid_t thread)
{
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (read(to_holder[0], &byte, 1) != 1 || ptrace(PTRACE_SEIZE, thread, 0, 0) != 0 ||
	    ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0 || waitpid(thread, NULL, __WALL) != thread ||
	    write(from_holder[1], &byte, 1) != 1 || read(to_holder[0], &byte, 1) != 1 ||
	    ptrace(PTRACE_DETACH, thread, 0, 0) != 0 || write(from_holder[1], &byte, 1) != 1)
		_exit(1);
	_exit(0);
}

/* Made without the C library's fork, so that it is no program of its own to the runtime. */
static void start_holder(void)
{
	pid_t thread = runtime_thread(), holder;

	if (!thread || pipe(to_holder) != 0 || pipe(from_holder) != 0)
		exit(1);
	holder = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (holder < 0)
		exit(1);
	if (holder == 0)
		hold_until_told(thread);
	/* Where only ancestors may trace; elsewhere it fails, and is not needed. */
	prctl(PR_SET_PTRACER, holder, 0, 0, 0);
}

static void tell_holder(void)
{
	char byte = 0;

	if (write(to_holder[1], &byte, 1) != 1 || read(from_holder[0], &byte, 1) != 1)
		exit(1);
}

static struct piste_record record;
static struct piste_place place;
static uint64_t recorded;

static void leave_hole(void)
{
	place = piste_record_begin(&record, &PISTE_EVENT__held_up__tick, NULL, sizeof(uint64_t), 0);
}

static void begin(void)
{
	leave_hole();
	if (place.cursor)
		memcpy(place.cursor, &recorded, sizeof(recorded));
	recorded++;
}

static void end(void)
{
	if (place.marks != 0)
		piste_place_commit(place);
	else if (place.cursor)
		piste_record_next(&record);
}

int main(void)
{
	char line[256];

	start_holder();
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "record ", 7) == 0)
			for (unsigned long count = strtoul(line + 7, NULL, 10); count > 0; count--)
				piste(held_up, tick, recorded++);
		else if (strncmp(line, "hole", 4) == 0)
			leave_hole();
		else if (strncmp(line, "begin", 5) == 0)
			begin();
		else if (strncmp(line, "end", 3) == 0)
			end();
		else
			tell_holder();
		puts("done");
		fflush(stdout);
	}
	return 0;
}
