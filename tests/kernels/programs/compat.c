// SPDX-License-Identifier: MIT OR Apache-2.0
/* compat [CPU]: a 32-bit program without a C library. Goes to the CPU if one is named; then calls getpid seven times, opens and reads a file,
 * handles a signal, asks for user and thread, and writes. Most of these numbers are other calls in the table of 64-bit programs. */

enum {
	EXIT = 1,
	READ = 3,
	WRITE = 4,
	CLOSE = 6,
	GETPID = 20,             /* 64 bits: writev */
	GETUID16 = 24,           /* sched_yield */
	KILL = 37,               /* alarm */
	SIGNAL = 48,             /* shutdown */
	GETTID = 224,            /* timer_gettime */
	SCHED_SETAFFINITY = 241, /* mq_unlink */
	OPENAT = 295,            /* preadv */
};
enum { SIGUSR1 = 10, AT_FDCWD = -100 };

__asm__(".globl _start\n"
        "_start:\n"
        "	push %esp\n"
        "	call run\n");

static int call(int number, int first, int second, int third)
{
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
	return result;
}

static volatile int handled;

static void handle(int signal)
{
	handled = signal;
}

void run(int *start)
{
	int argc = start[0];
	char **argv = (char **)(start + 1);
	char buffer[64];
	if (argc > 1) {
		unsigned mask = 1u << (argv[1][0] - '0');
		if (call(SCHED_SETAFFINITY, 0, sizeof mask, (int)&mask) < 0)
			call(EXIT, 2, 0, 0);
	}
	for (int i = 0; i < 7; i++)
		call(GETPID, 0, 0, 0);
	int file = call(OPENAT, AT_FDCWD, (int)"/etc/hostname", 0);
	call(READ, file, (int)buffer, sizeof buffer);
	call(CLOSE, file, 0, 0);
	call(SIGNAL, SIGUSR1, (int)handle, 0);
	call(KILL, call(GETPID, 0, 0, 0), SIGUSR1, 0);
	call(GETUID16, 0, 0, 0);
	call(GETTID, 0, 0, 0);
	call(WRITE, 1, (int)"thirty-two\n", 11);
	call(EXIT, handled != SIGUSR1, 0, 0);
}
