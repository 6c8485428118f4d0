/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * processes HOW: processes that come, go and turn into others, each recording events numbered from 0 under its own pid. Prints how many
 * processes recorded, and how many events each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <piste/tracepoint.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS    100
#define TREE      4
#define THREADS   4
#define CHILDREN  20
#define THREAD_ID 1000000

extern char **environ;

PISTE_EVENT(process, tick, (int32_t, pid), (uint64_t, number))

static bool enough;

static void record_events(int32_t id)
{
	for (uint64_t number = 0; number < EVENTS; number++)
		piste(process, tick, id, number);
}

static void wait_for(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child < 0 || status != 0) {
		fprintf(stderr, "a child ended with status %d\n", status);
		exit(1);
	}
}

/* The parent records half before, half after: what it had written before is not written again by the child. */
static int fork_once(void)
{
	pid_t child;

	for (uint64_t number = 0; number < EVENTS / 2; number++)
		piste(process, tick, getpid(), number);
	child = fork();
	if (child == 0) {
		record_events(getpid());
		_exit(0);
	}
	for (uint64_t number = EVENTS / 2; number < EVENTS; number++)
		piste(process, tick, getpid(), number);
	wait_for(child);
	return 2;
}

/* Each process but the last generation has two children. */
static void fork_tree(int generations)
{
	pid_t children[2] = {0, 0};

	record_events(getpid());
	for (int child = 0; generations > 0 && child < 2; child++) {
		children[child] = fork();
		if (children[child] == 0) {
			fork_tree(generations - 1);
			_exit(0);
		}
	}
	for (int child = 0; generations > 0 && child < 2; child++)
		wait_for(children[child]);
}

static void *record_until_enough(void *thread)
{
	for (uint64_t number = 0; !__atomic_load_n(&enough, __ATOMIC_RELAXED); number++) {
		piste(process, tick, (int32_t)(uintptr_t)thread, number);
		usleep(50);
	}
	return NULL;
}

/* fork() while other threads are inside records. */
static int fork_among_threads(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t thread = 0; thread < THREADS; thread++)
		pthread_create(&threads[thread], NULL, record_until_enough, (void *)(THREAD_ID + thread));
	for (int child = 0; child < CHILDREN; child++) {
		pid_t pid = fork();

		if (pid == 0) {
			record_events(getpid());
			_exit(0);
		}
		wait_for(pid);
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELAXED);
	for (int thread = 0; thread < THREADS; thread++)
		pthread_join(threads[thread], NULL);
	return CHILDREN;
}

static int vfork_and_spawn(char *path)
{
	char *arguments[] = {path, (char *)"leaf", NULL};
	pid_t child;

	record_events(getpid());
	child = vfork();
	if (child == 0) {
		execv(path, arguments);
		_exit(127);
	}
	wait_for(child);
	if (posix_spawn(&child, path, NULL, NULL, arguments, environ) != 0)
		child = -1;
	wait_for(child);
	return 3;
}

static void close_all_descriptors(void)
{
	for (int file = 3; file < 4096; file++)
		close(file);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int count = 1;

	if (strcmp(how, "fork") == 0) {
		count = fork_once();
	} else if (strcmp(how, "tree") == 0) {
		fork_tree(TREE);
		count = (2 << TREE) - 1;
	} else if (strcmp(how, "threads") == 0) {
		count = fork_among_threads();
	} else if (strcmp(how, "spawn") == 0) {
		count = vfork_and_spawn(argv[0]);
	} else if (strcmp(how, "leaf") == 0) {
		record_events(getpid());
		return 0;
	} else if (strcmp(how, "close") == 0) {
		close_all_descriptors();
		record_events(getpid());
		close_all_descriptors();
	} else if (strcmp(how, "close-and-fork") == 0) {
		close_all_descriptors();
		count = fork_once();
	} else if (strcmp(how, "no-exit-handlers") == 0) {
		record_events(getpid());
		printf("1 %d\n", EVENTS);
		fflush(stdout);
		_exit(0);
	} else if (strcmp(how, "abort") == 0) {
		record_events(getpid());
		printf("1 %d\n", EVENTS);
		fflush(stdout);
		abort();
	} else if (strcmp(how, "exec") == 0) {
		/* The same pid twice, so ids of their own. */
		record_events(1);
		printf("2 %d\n", EVENTS);
		fflush(stdout);
		execl(argv[0], argv[0], "leaf", (char *)NULL);
		return 127;
	}
	printf("%d %d\n", count, EVENTS);
	return 0;
}
