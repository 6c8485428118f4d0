/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Disturbs what runs on a CPU until it is ended:
 *
 *     disturbs hog CPU       a thread of real-time priority 90 there computes for 40 ms, five times a second
 *     disturbs packets CPU   sends packets over the loopback interface from another CPU; the kernel is to receive them on that one (RPS)
 *
 * Prints `ready` once it has begun.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PRIORITY     90
#define BUSY_NS      40000000
#define PAUSE_NS     160000000
#define PACKET_BYTES 1400
#define SINKS        64

static int64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		fail("sched_setaffinity");
}

static void avoid(int cpu)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		fail("sched_getaffinity");
	CPU_CLR(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		fail("sched_setaffinity");
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void hog(int cpu)
{
	struct sched_param priority = {.sched_priority = PRIORITY};
	struct timespec pause = {.tv_nsec = PAUSE_NS};

	pin(cpu);
	if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
		fail("sched_setscheduler");
	ready();
	for (;;) {
		int64_t end = nanoseconds() + BUSY_NS;

		while (nanoseconds() < end)
			;
		nanosleep(&pause, NULL);
	}
}

/* Each packet is received by many sockets that nobody reads: its way through the kernel is long, and all of it is soft interrupt. */
static void packets(int cpu)
{
	static char bytes[PACKET_BYTES];
	struct sockaddr_in group = {.sin_family = AF_INET};
	struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
	int sender, on = 1;

	avoid(cpu);
	group.sin_addr.s_addr = inet_addr("239.1.2.3");
	for (int sink = 0; sink < SINKS; sink++) {
		struct ip_mreq membership = {.imr_multiaddr = group.sin_addr, .imr_interface = loopback};
		socklen_t length = sizeof(group);
		int receiver = socket(AF_INET, SOCK_DGRAM, 0);

		if (receiver < 0 || setsockopt(receiver, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
			fail("socket");
		if (bind(receiver, (struct sockaddr *)&group, sizeof(group)) != 0)
			fail("bind");
		if (setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof(membership)) != 0)
			fail("IP_ADD_MEMBERSHIP");
		/* The first one has a free port; the others have the same. */
		if (getsockname(receiver, (struct sockaddr *)&group, &length) != 0)
			fail("getsockname");
	}
	sender = socket(AF_INET, SOCK_DGRAM, 0);
	if (sender < 0 || setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof(loopback)) != 0)
		fail("IP_MULTICAST_IF");
	ready();
	for (;;)
		sendto(sender, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&group, sizeof(group));
}

int main(int argument_count, char **arguments)
{
	if (argument_count == 3 && strcmp(arguments[1], "hog") == 0)
		hog(atoi(arguments[2]));
	if (argument_count == 3 && strcmp(arguments[1], "packets") == 0)
		packets(atoi(arguments[2]));
	fprintf(stderr, "usage: disturbs hog|packets CPU\n");
	return 2;
}
