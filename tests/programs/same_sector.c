// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads the first sector of the device that is named, past the page cache: 64 times at once, then 8 times one after the other. Prints its pid. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { AT_ONCE = 64, ALONE = 8, SECTOR_BYTES = 512 };

static int read_sector(aio_context_t context, int device, int count)
{
	static struct iocb each[AT_ONCE];
	static struct io_event done[AT_ONCE];
	struct iocb *all[AT_ONCE];
	for (int i = 0; i < count; i++) {
		void *memory;
		if (posix_memalign(&memory, 4096, 4096))
			return 1;
		each[i] = (struct iocb){
		        .aio_lio_opcode = IOCB_CMD_PREAD,
		        .aio_fildes = (uint32_t)device,
		        .aio_buf = (uintptr_t)memory,
		        .aio_nbytes = SECTOR_BYTES,
		};
		all[i] = &each[i];
	}
	if (syscall(SYS_io_submit, context, (long)count, all) != count)
		return 1;
	return syscall(SYS_io_getevents, context, (long)count, (long)count, done, NULL) != count;
}

int main(int argc, char **argv)
{
	int device = open(argc > 1 ? argv[1] : "", O_RDONLY | O_DIRECT);
	aio_context_t context = 0;
	if (device < 0 || syscall(SYS_io_setup, (long)AT_ONCE, &context))
		return 1;
	if (read_sector(context, device, AT_ONCE))
		return 1;
	for (int i = 0; i < ALONE; i++)
		if (read_sector(context, device, 1))
			return 1;
	printf("%d\n", (int)getpid());
	return 0;
}
