/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads and writes in every way that the kernel counts in /proc/PID/io, in a process that does nothing else; then prints what the kernel
 * counted for it: `PID RCHAR WCHAR`. The files are in the folder that is given. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		_exit(1);
	}
}

static void mix(void)
{
	static char bytes[100000];
	struct iovec parts[2] = {{bytes, 1000}, {bytes + 1000, 500}};

	int file = open("mix", O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(file >= 0, "open");
	must(write(file, bytes, sizeof bytes) == sizeof bytes, "write");
	must(pwrite(file, bytes, 777, 12345) == 777, "pwrite");
	must(pwritev(file, parts, 2, 4000) == 1500, "pwritev");
	must(lseek(file, 0, SEEK_SET) == 0, "lseek");
	must(writev(file, parts, 2) == 1500, "writev");
	must(read(file, bytes, 3000) == 3000, "read");
	must(readv(file, parts, 2) == 1500, "readv");
	must(pread(file, bytes, 4321, 99) == 4321, "pread");
	must(preadv(file, parts, 2, 7) == 1500, "preadv");

	/* At the end of the file, and on what is no descriptor. */
	must(pread(file, bytes, 10, 1 << 20) == 0, "pread at the end");
	must(read(-1, bytes, 10) == -1, "read of nothing");

	int copy = open("copy", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(copy >= 0, "open");
	off_t from = 0;
	must(sendfile(copy, file, &from, 5000) == 5000, "sendfile");
	must(lseek(file, 100, SEEK_SET) == 100, "lseek");
	must(copy_file_range(file, NULL, copy, NULL, 6000, 0) == 6000, "copy_file_range");

	int again = dup(copy);
	must(again >= 0, "dup");
	must(close(copy) == 0, "close");
	must(write(again, bytes, 11) == 11, "write");
	must(fsync(again) == 0, "fsync");

	int ends[2];
	must(pipe(ends) == 0, "pipe");
	must(write(ends[1], bytes, 4000) == 4000, "write to a pipe");
	must(read(ends[0], bytes, 9000) == 4000, "read from a pipe");

	int pair[2];
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	must(write(pair[0], bytes, 300) == 300, "write to a socket");
	must(read(pair[1], bytes, 900) == 300, "read from a socket");
}

int main(int count, char **arguments)
{
	must(count == 2 && chdir(arguments[1]) == 0, "a folder");
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		mix();
		_exit(0);
	}

	/* It has ended and is still there. */
	siginfo_t end;
	must(waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT) == 0 && end.si_status == 0, "waitid");
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/io", (int)child);
	FILE *said = fopen(path, "r");
	must(said != NULL, path);
	unsigned long long rchar, wchar;
	must(fscanf(said, "rchar: %llu wchar: %llu", &rchar, &wchar) == 2, "what the kernel counted");
	printf("%d %llu %llu\n", (int)child, rchar, wchar);
	return wait(NULL) == child ? 0 : 1;
}
