/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * puppet: does what its standard input says and answers each line with one, so that a test decides what happens when.
 *
 *   record N      records N of each event                        done
 *   enabled       which events are enabled                       order debug_note failure, those that are
 *   wait          waits until order is enabled                   done
 *   cpu           CPU time of the process so far                 microseconds
 *   open          opens a file, closes it                        its descriptor
 *   lock          locks its memory, now and for the future       done
 *   exec PATH     becomes another program
 */
#include <errno.h>
#include <fcntl.h>
#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

PISTE_EVENT_LEVEL(shop, order, INFO, (uint64_t, number), (const char *, customer))
PISTE_EVENT_LEVEL(shop, debug_note, DEBUG, (uint64_t, number))
PISTE_EVENT_LEVEL(bank, failure, ERR, (uint64_t, number))

static uint64_t recorded;

static void record(unsigned long count)
{
	for (; count > 0; count--, recorded++) {
		piste(shop, order, recorded, "ada");
		piste(shop, debug_note, recorded);
		piste(bank, failure, recorded);
	}
	puts("done");
}

static void wait_until_enabled(void)
{
	while (!piste_enabled(shop, order))
		usleep(1000);
	puts("done");
}

static void show_cpu_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec +
	                        usage.ru_stime.tv_usec);
}

static void show_descriptor(void)
{
	int file = open("/dev/null", O_RDONLY);

	printf("%d\n", file);
	close(file);
}

static void lock_memory(void)
{
	puts(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "done" : strerror(errno));
}

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "record ", 7) == 0)
			record(strtoul(line + 7, NULL, 10));
		else if (strcmp(line, "enabled") == 0)
			printf("%s%s%s\n", piste_enabled(shop, order) ? "order " : "",
			       piste_enabled(shop, debug_note) ? "debug_note " : "",
			       piste_enabled(bank, failure) ? "failure " : "");
		else if (strcmp(line, "wait") == 0)
			wait_until_enabled();
		else if (strcmp(line, "cpu") == 0)
			show_cpu_time();
		else if (strcmp(line, "open") == 0)
			show_descriptor();
		else if (strcmp(line, "lock") == 0)
			lock_memory();
		else if (strncmp(line, "exec ", 5) == 0)
			execl(line + 5, line + 5, (char *)NULL);
		else
			puts("what?");
		fflush(stdout);
	}
	return 0;
}
