// SPDX-License-Identifier: MIT OR Apache-2.0
/* Makes the same system calls in every run: a process with a second thread, and two children one after the other. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

static void files(int count)
{
	char text[64] = {0};
	for (int i = 0; i < count; i++) {
		int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		REQUIRE(file >= 0);
		REQUIRE(read(file, text, sizeof text) == sizeof text);
		REQUIRE(pread(file, text, sizeof text, 3) == sizeof text);
		struct iovec parts[2] = {{text, 8}, {text + 8, 8}};
		REQUIRE(readv(file, parts, 2) == 16);
		struct stat status;
		REQUIRE(fstat(file, &status) == 0);
		REQUIRE(lseek(file, 0, SEEK_SET) == 0);
		REQUIRE(close(file) == 0);
	}
}

static void memory(int count)
{
	for (int i = 0; i < count; i++) {
		void *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		REQUIRE(pages != MAP_FAILED);
		REQUIRE(mprotect(pages, 4096, PROT_READ) == 0);
		REQUIRE(munmap(pages, 8192) == 0);
	}
}

static void sockets(int count)
{
	int pair[2];
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	for (int i = 0; i < count; i++) {
		char byte = 'x';
		REQUIRE(send(pair[0], &byte, 1, 0) == 1);
		REQUIRE(recv(pair[1], &byte, 1, 0) == 1);
	}
	close(pair[0]);
	close(pair[1]);
}

static _Atomic int asked;

/* It never ends: whether joining it takes a system call would depend on when it does. */
static void *asks(void *nothing)
{
	for (int i = 0; i < 700; i++)
		syscall(SYS_getppid);
	asked = 1;
	pause();
	return nothing;
}

int main(void)
{
	pthread_t thread;
	REQUIRE(pthread_create(&thread, NULL, asks, NULL) == 0);
	while (!asked)
		;
	files(100);
	memory(50);
	for (int child = 0; child < 2; child++) {
		pid_t pid = fork();
		if (pid == 0) {
			sockets(200);
			for (int i = 0; i < 300; i++)
				syscall(SYS_getuid);
			_exit(0);
		}
		REQUIRE(waitpid(pid, NULL, 0) == pid);
	}
	for (int i = 0; i < 40; i++)
		REQUIRE(fcntl(1000, F_GETFD) == -1);
}
