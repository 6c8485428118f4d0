// SPDX-License-Identifier: MIT OR Apache-2.0
/* changing_paths COUNT: a hostile program. One thread asks COUNT times whether a path exists, while others change the path, take its memory away
 * and give it back. In the end it asks for a path in memory that it gives only after a while (userfaultfd), and prints whether it could. All paths
 * consist of '/', 'a' and 'b'. */

#define _GNU_SOURCE

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE    4096
#define SLOW_US 100000

static char *path;
static atomic_bool is_over;

static void *change(void *nothing)
{
	static char text[PAGE];
	struct iovec from = {.iov_base = text}, to = {.iov_base = path};

	for (size_t length = 1; !is_over; length = (length + 331) % (PAGE - 1)) {
		memset(text, length & 1 ? 'a' : 'b', PAGE);
		text[0] = '/';
		text[length] = '\0';
		from.iov_len = to.iov_len = length + 1;
		/* Where the page is gone, this fails, and a store would be a signal. */
		process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	}
	return nothing;
}

static void *take_away(void *nothing)
{
	while (!is_over) {
		mprotect(path, PAGE, PROT_NONE);
		mprotect(path, PAGE, PROT_READ | PROT_WRITE);
		madvise(path, PAGE, MADV_DONTNEED);
	}
	return nothing;
}

static void *give_late(void *argument)
{
	static char page[PAGE] = "/abab";
	int faults = *(int *)argument;
	struct uffd_msg message;
	struct uffdio_copy copy = {.src = (unsigned long)page, .len = PAGE};

	if (read(faults, &message, sizeof message) != sizeof message)
		return NULL;
	usleep(SLOW_US);
	copy.dst = message.arg.pagefault.address & ~(unsigned long)(PAGE - 1);
	ioctl(faults, UFFDIO_COPY, &copy);
	return NULL;
}

/* Asks for a path in memory that is not there until another thread gives it. */
static int ask_slowly(void)
{
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	pthread_t thread;
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (faults < 0 || page == MAP_FAILED || ioctl(faults, UFFDIO_API, &api) != 0)
		return 0;
	range.range.start = (unsigned long)page;
	range.range.len = PAGE;
	if (ioctl(faults, UFFDIO_REGISTER, &range) != 0 || pthread_create(&thread, NULL, give_late, &faults) != 0)
		return 0;
	access(page, F_OK);
	pthread_join(thread, NULL);
	return 1;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1000;
	pthread_t changing, taking;

	path = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (path == MAP_FAILED || pthread_create(&changing, NULL, change, NULL) != 0 ||
	    pthread_create(&taking, NULL, take_away, NULL) != 0)
		return 1;
	for (int call = 0; call < count; call++)
		access(path, F_OK);
	is_over = true;
	pthread_join(changing, NULL);
	pthread_join(taking, NULL);
	puts(ask_slowly() ? "slow" : "not slow");
	return 0;
}
