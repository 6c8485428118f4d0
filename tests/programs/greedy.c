/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * greedy WHAT COUNT: takes what it can get of pisted at $PISTE_RUNDIR. Says how much it was, keeps it until standard input closes.
 *
 *   classes      one program with so many events, all of one name, with different fields
 *   ring_sets    so many processes that register, disconnect and live on
 *   connections  so many connections that say nothing
 *   unread       so many questions whose answers nobody reads
 *   paths        so many registrations with a very long path
 *   control      so many connections to the control socket that say nothing
 *   request      one request of so many bytes without an end, to the control socket; how many were taken
 */
#include <errno.h>
#include <piste/abi/event.h>
#include <piste/abi/protocol.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static uint8_t bytes[PISTE_MESSAGE_BYTES_MAX];

static int connect_to(const char *name, int type)
{
	struct sockaddr_un address = {AF_UNIX, {0}};
	int file = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", getenv("PISTE_RUNDIR"), name);
	if (file >= 0 && connect(file, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(file);
		return -1;
	}
	return file;
}

static bool send_message(int file, uint32_t type, size_t count)
{
	struct piste_message message = {PISTE_MESSAGE_MAGIC, type, (uint32_t)count, 0};

	memcpy(bytes, &message, sizeof(message));
	return send(file, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

static bool say_hello(int file, size_t path_bytes)
{
	struct piste_message_hello hello;

	memset(&hello, 0, sizeof(hello));
	hello.version_major = PISTE_ABI_MAJOR;
	hello.struct_bytes = sizeof(hello);
	hello.instance_id = (uint64_t)getpid() << 32 | (uint32_t)file;
	hello.vpid = getpid();
	hello.pointer_bits = 64;
	hello.path_bytes = (uint32_t)path_bytes;
	memcpy(hello.process_name, "greedy", 6);
	memset(bytes, 0xff, sizeof(bytes));
	memcpy(bytes, &hello, sizeof(hello));
	return send_message(file, PISTE_MESSAGE_HELLO, sizeof(hello) + path_bytes);
}

/* An event greedy:take with one field, whose name has the number. Returns where the next one goes. */
static size_t describe(size_t offset, uint32_t index, uint32_t number)
{
	struct piste_event_description event = {56, index, PISTE_LEVEL_INFO, 0, 1, 6, 4};
	struct piste_field_description field = {
	        24, PISTE_FIELD_SCALAR, PISTE_ELEMENT_INT32, PISTE_BASE_DECIMAL, 0, 6, 0, 0};
	char name[16];

	snprintf(name, sizeof(name), "%06u", number);
	memset(bytes + offset, 0, 56);
	memcpy(bytes + offset, &event, sizeof(event));
	memcpy(bytes + offset + sizeof(event), "greedytake", 10);
	memcpy(bytes + offset + sizeof(event) + 16, &field, sizeof(field));
	memcpy(bytes + offset + sizeof(event) + 16 + sizeof(field), name, 6);
	return offset + 56;
}

static bool send_events(int file, uint32_t first, uint32_t count)
{
	struct piste_message_events events;
	size_t total = sizeof(events);

	memset(&events, 0, sizeof(events));
	events.module_id = 1;
	events.event_count = count;
	for (uint32_t index = 0; index < count; index++)
		total = describe(total, first + index, first + index);
	memcpy(bytes, &events, sizeof(events));
	return send_message(file, PISTE_MESSAGE_EVENTS, total);
}

/* Asks, and reads until the answer comes: everything sent before has taken effect. */
static bool wait_until_served(int file)
{
	struct piste_message *message = (struct piste_message *)bytes;
	struct piste_message_sync sync;

	memset(&sync, 0, sizeof(sync));
	memcpy(bytes, &sync, sizeof(sync));
	if (!send_message(file, PISTE_MESSAGE_SYNC, sizeof(sync)))
		return false;
	do
		if (recv(file, bytes, sizeof(bytes), 0) <= 0)
			return false;
	while (message->type != PISTE_MESSAGE_SYNCED);
	return true;
}

static unsigned long take_classes(unsigned long count)
{
	int file = connect_to("app.sock", SOCK_SEQPACKET);
	unsigned long sent = 0;

	if (!say_hello(file, 0))
		return 0;
	while (sent < count) {
		unsigned long some = count - sent < 900 ? count - sent : 900;

		if (!send_events(file, (uint32_t)sent, (uint32_t)some))
			return sent;
		sent += some;
	}
	return wait_until_served(file) ? sent : 0;
}

static unsigned long take_ring_sets(unsigned long count)
{
	unsigned long taken = 0;

	for (unsigned long index = 0; index < count; index++) {
		int served[2];
		char is_served = 0;

		if (pipe(served) != 0)
			break;
		if (fork() == 0) {
			int file = connect_to("app.sock", SOCK_SEQPACKET);

			is_served =
			        file >= 0 && say_hello(file, 0) && send_events(file, 0, 1) && wait_until_served(file);
			close(file);
			if (write(served[1], &is_served, 1) == 1)
				close(served[1]);
			/* Until the parent's standard input closes, which is ours too. */
			while (read(STDIN_FILENO, &is_served, 1) > 0)
				;
			_exit(0);
		}
		close(served[1]);
		if (read(served[0], &is_served, 1) == 1)
			taken += (unsigned long)is_served;
		close(served[0]);
	}
	return taken;
}

static unsigned long take_connections(const char *name, int type, unsigned long count)
{
	unsigned long taken = 0;

	while (taken < count && connect_to(name, type) >= 0)
		taken++;
	return taken;
}

static unsigned long ask_and_never_read(unsigned long count)
{
	int file = connect_to("app.sock", SOCK_SEQPACKET);
	unsigned long sent = 0;

	if (!say_hello(file, 0))
		return 0;
	memset(bytes, 0, sizeof(struct piste_message_sync));
	while (sent < count && send_message(file, PISTE_MESSAGE_SYNC, sizeof(struct piste_message_sync)))
		sent++;
	return sent;
}

static unsigned long register_with_long_paths(unsigned long count)
{
	unsigned long taken = 0;

	for (unsigned long index = 0; index < count; index++) {
		int file = connect_to("app.sock", SOCK_SEQPACKET);

		taken += file >= 0 && say_hello(file, 60000) && wait_until_served(file);
	}
	return taken;
}

static unsigned long request_without_end(unsigned long count)
{
	int file = connect_to("control.sock", SOCK_STREAM);
	unsigned long taken = 0;

	memset(bytes, 'x', sizeof(bytes));
	while (taken < count) {
		ssize_t sent = send(file, bytes, sizeof(bytes), MSG_NOSIGNAL);

		if (sent <= 0)
			break;
		taken += (unsigned long)sent;
	}
	return taken;
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[1] : "";
	unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0, taken;
	struct rlimit files;
	char end;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (strcmp(what, "classes") == 0)
		taken = take_classes(count);
	else if (strcmp(what, "ring_sets") == 0)
		taken = take_ring_sets(count);
	else if (strcmp(what, "connections") == 0)
		taken = take_connections("app.sock", SOCK_SEQPACKET, count);
	else if (strcmp(what, "unread") == 0)
		taken = ask_and_never_read(count);
	else if (strcmp(what, "paths") == 0)
		taken = register_with_long_paths(count);
	else if (strcmp(what, "control") == 0)
		taken = take_connections("control.sock", SOCK_STREAM, count);
	else if (strcmp(what, "request") == 0)
		taken = request_without_end(count);
	else
		return 2;
	printf("%lu\n", taken);
	fflush(stdout);
	while (read(STDIN_FILENO, &end, 1) > 0)
		;
	while (wait(NULL) > 0)
		;
	return 0;
}
