// SPDX-License-Identifier: MIT OR Apache-2.0
/* Waits that are known: as the first argument says, of its main thread. Each sleep takes 300 ms, and begins when all wait for it. The file
 * `threads` in the working folder names the threads that matter, the main one first.
 *
 *   timer     it sleeps
 *   chain     it waits for its child, which waits for its own child, which sleeps
 *   pipe      it reads three times what its child writes, each time after a sleep
 *   tcp       the same, over a connection to this host
 *   lock      it locks a mutex that another thread holds while it sleeps
 *   convoy    it locks a mutex three times; each time another thread has it, and sleeps
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_locked;

static void tell(void)
{
	FILE *file = fopen("threads", "a");
	if (file) {
		fprintf(file, "%ld\n", syscall(SYS_gettid));
		fclose(file);
	}
}

/* Until a thread waits for something. */
static void until_it_waits(pid_t thread)
{
	char path[64], text[256];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
	for (;;) {
		FILE *file = fopen(path, "r");
		if (!file)
			return;
		size_t count = fread(text, 1, sizeof text - 1, file);
		fclose(file);
		text[count] = 0;
		/* "1 (name) S ..." */
		const char *state = strrchr(text, ')');
		if (state && state[1] && state[2] == 'S')
			return;
		struct timespec moment = {.tv_nsec = 1000 * 1000};
		nanosleep(&moment, NULL);
	}
}

static void rest(void)
{
	struct timespec time = {.tv_nsec = 300 * 1000 * 1000};
	while (nanosleep(&time, &time))
		;
}

static void *holder(void *nothing)
{
	tell();
	pthread_mutex_lock(&mutex);
	sem_post(&is_locked);
	until_it_waits(getpid());
	rest();
	pthread_mutex_unlock(&mutex);
	return nothing;
}

static int wait_for_lock(int count)
{
	sem_init(&is_locked, 0, 0);
	for (int i = 0; i < count; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, holder, NULL))
			return 1;
		sem_wait(&is_locked);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		pthread_join(thread, NULL);
	}
	return 0;
}

static int chain(int depth, pid_t first)
{
	pid_t child = fork();
	if (child == 0) {
		tell();
		if (depth > 1)
			_exit(chain(depth - 1, first));
		until_it_waits(first);
		until_it_waits(getppid());
		rest();
		_exit(0);
	}
	int status;
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* The ends of a connection over the loopback interface, the one that reads first. */
static int connect_to_itself(int ends[2])
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof here;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&here, bytes) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&here, &bytes))
		return 1;
	ends[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(ends[1], (struct sockaddr *)&here, bytes))
		return 1;
	ends[0] = accept(listener, NULL, NULL);
	return ends[0] < 0;
}

static int read_three(int is_connection)
{
	int ends[2];
	if (is_connection ? connect_to_itself(ends) : pipe(ends))
		return 1;
	pid_t child = fork();
	char byte = 'x';
	for (int i = 0; i < 3; i++) {
		if (child == 0) {
			if (i == 0)
				tell();
			until_it_waits(getppid());
			rest();
			if (write(ends[1], &byte, 1) != 1)
				_exit(1);
		} else if (read(ends[0], &byte, 1) != 1) {
			return 1;
		}
	}
	if (child == 0)
		_exit(0);
	int status;
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "";
	tell();
	if (!strcmp(wanted, "timer"))
		return rest(), 0;
	if (!strcmp(wanted, "chain"))
		return chain(2, getpid());
	if (!strcmp(wanted, "pipe"))
		return read_three(0);
	if (!strcmp(wanted, "tcp"))
		return read_three(1);
	if (!strcmp(wanted, "lock"))
		return wait_for_lock(1);
	if (!strcmp(wanted, "convoy"))
		return wait_for_lock(3);
	return 2;
}
