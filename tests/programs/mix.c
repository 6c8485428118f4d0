// SPDX-License-Identifier: MIT OR Apache-2.0
/* What a desktop or a server does in small, as the first argument says. Prints for every process what the kernel counted for its whole life:
 * `NAME PID USED_NS SWITCHES`.
 *
 *   desktop   an editor that does a little now and then; a writer and a reader of a pipe; a job that only computes
 *   server    a server and its clients, which talk to it over the loopback interface
 */

#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 40, LINES = 200, CLIENTS = 3, REQUESTS = 60, PROCESSES_MAX = 4 };

static int ends[2], listening;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void must(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		_exit(1);
	}
}

/* Uses its CPU for so long. */
static void compute(long us)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do {
		for (volatile int i = 0; i < 30000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void edit(void)
{
	for (int i = 0; i < KEYS; i++) {
		struct timespec time = {.tv_nsec = 3 * 1000 * 1000};
		nanosleep(&time, NULL);
		compute(300);
	}
}

static void write_lines(void)
{
	char line[64] = "line";
	close(ends[0]);
	for (int i = 0; i < LINES; i++) {
		compute(50);
		must(write(ends[1], line, sizeof line) == sizeof line, "write");
	}
}

static void read_lines(void)
{
	char line[64];
	close(ends[1]);
	while (read(ends[0], line, sizeof line) > 0)
		compute(50);
}

static void work(void)
{
	compute(100 * 1000);
}

static void serve(void)
{
	int clients[CLIENTS];
	for (int i = 0; i < CLIENTS; i++)
		must((clients[i] = accept(listening, NULL, NULL)) >= 0, "accept");
	for (int i = 0; i < CLIENTS * REQUESTS; i++) {
		char request[100];
		int client = clients[i % CLIENTS];
		must(recv(client, request, sizeof request, MSG_WAITALL) == sizeof request, "recv");
		compute(100);
		must(send(client, request, sizeof request, 0) == sizeof request, "send");
	}
}

static void ask(void)
{
	int server = socket(AF_INET, SOCK_STREAM, 0);
	must(server >= 0 && connect(server, (struct sockaddr *)&address, sizeof address) == 0, "connect");
	for (int i = 0; i < REQUESTS; i++) {
		char request[100] = "question";
		must(send(server, request, sizeof request, 0) == sizeof request, "send");
		must(recv(server, request, sizeof request, MSG_WAITALL) == sizeof request, "recv");
		compute(20);
	}
}

static const char *names[PROCESSES_MAX];
static pid_t pids[PROCESSES_MAX];
static int processes;

static void start(const char *name, void (*body)(void))
{
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		body();
		_exit(0);
	}
	names[processes] = name;
	pids[processes++] = pid;
}

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "";
	if (!strcmp(wanted, "desktop")) {
		must(pipe(ends) == 0, "pipe");
		start("editor", edit);
		start("writer", write_lines);
		start("reader", read_lines);
		start("job", work);
		close(ends[0]);
		close(ends[1]);
	} else if (!strcmp(wanted, "server")) {
		socklen_t length = sizeof address;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listening = socket(AF_INET, SOCK_STREAM, 0);
		must(listening >= 0 && bind(listening, (struct sockaddr *)&address, length) == 0, "bind");
		must(listen(listening, CLIENTS) == 0, "listen");
		must(getsockname(listening, (struct sockaddr *)&address, &length) == 0, "getsockname");
		start("server", serve);
		for (int i = 0; i < CLIENTS; i++)
			start("client", ask);
	} else {
		return 2;
	}
	for (int i = 0; i < processes; i++) {
		struct rusage used;
		int status;
		must(wait4(pids[i], &status, 0, &used) == pids[i] && status == 0, "wait4");
		long long us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000LL + used.ru_utime.tv_usec +
		               used.ru_stime.tv_usec;
		printf("%s %d %lld %ld\n", names[i], (int)pids[i], us * 1000, used.ru_nvcsw + used.ru_nivcsw);
	}
	return 0;
}
