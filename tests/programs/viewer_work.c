// SPDX-License-Identifier: MIT OR Apache-2.0
/* Makes the kernel do, a few times each, what viewers analyse: processes, wake-ups, priorities lent by a lock, timers, a disk (a file in
 * the current folder), the network (loopback), memory. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lending;

static void run_on(int cpu)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static void *urgent(void *nothing)
{
	struct sched_param parameter = {.sched_priority = 5};
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
	pthread_mutex_lock(&lending);
	pthread_mutex_unlock(&lending);
	return nothing;
}

static void lend_priority(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lending, &attributes);
	pthread_mutex_lock(&lending);
	pthread_t thread;
	pthread_create(&thread, NULL, urgent, NULL);
	usleep(20000);
	pthread_mutex_unlock(&lending);
	pthread_join(thread, NULL);
}

static void timers(void)
{
	usleep(2000);
	struct itimerval far = {.it_value.tv_sec = 1000}, none = {0};
	setitimer(ITIMER_REAL, &far, NULL);
	setitimer(ITIMER_REAL, &none, NULL);
}

static void disk(void)
{
	static char text[1 << 16] __attribute__((aligned(4096)));
	int file = open("written", O_CREAT | O_RDWR | O_TRUNC, 0600);
	for (int i = 0; i < 8; i++)
		if (write(file, text, sizeof text) != sizeof text)
			abort();
	fsync(file);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	for (int i = 0; i < 8; i++)
		if (pread(file, text, sizeof text, i * (off_t)sizeof text) != sizeof text)
			abort();
	close(file);
	unlink("written");
}

static void network(void)
{
	int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof address;
	if (bind(receiver, (struct sockaddr *)&address, bytes) ||
	    getsockname(receiver, (struct sockaddr *)&address, &bytes))
		abort();
	char text[100] = "loopback";
	for (int i = 0; i < 10; i++)
		if (sendto(sender, text, sizeof text, 0, (struct sockaddr *)&address, bytes) != sizeof text ||
		    recv(receiver, text, sizeof text, 0) != sizeof text)
			abort();
	close(receiver);
	close(sender);
}

static void memory(void)
{
	char *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(pages, 1, 1 << 20);
	munmap(pages, 1 << 20);
}

int main(void)
{
	for (int round = 0; round < 3; round++) {
		pid_t child = fork();
		if (child == 0) {
			run_on(round % 2);
			execl("/bin/true", "true", NULL);
			_exit(127);
		}
		waitpid(child, NULL, 0);
		run_on(round % 2);
		lend_priority();
		timers();
		disk();
		network();
		memory();
	}
}
