/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hostile_messages SEED ROUNDS: connects to pisted as a traced program would and sends what none should: random bytes, headers that
 * lie, good headers with garbage behind, good messages with some bytes changed, descriptors that nobody asked for.
 */
#include <piste/abi/event.h>
#include <piste/abi/protocol.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static uint64_t state;

static uint32_t random_below(uint32_t limit)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % limit);
}

static int connect_to_pisted(void)
{
	struct sockaddr_un address = {AF_UNIX, {0}};
	struct timeval timeout = {1, 0};
	int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/app.sock", getenv("PISTE_RUNDIR"));
	setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(file, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(file);
		return -1;
	}
	return file;
}

static void fill_randomly(uint8_t *bytes, size_t count)
{
	for (size_t index = 0; index < count; index++)
		bytes[index] = (uint8_t)random_below(256);
}

static void set_header(void *bytes, uint32_t type, uint32_t total_bytes)
{
	struct piste_message message = {PISTE_MESSAGE_MAGIC, type, total_bytes, 0};

	memcpy(bytes, &message, sizeof(message));
}

static size_t good_hello(uint8_t *bytes)
{
	static const char path[] = "/hostile";
	struct piste_message_hello hello;

	memset(&hello, 0, sizeof(hello));
	hello.version_major = PISTE_ABI_MAJOR;
	hello.struct_bytes = sizeof(hello);
	hello.instance_id = state;
	hello.vpid = getpid();
	hello.pointer_bits = 64;
	hello.path_bytes = sizeof(path) - 1;
	memcpy(hello.process_name, "hostile", 7);
	memcpy(bytes, &hello, sizeof(hello));
	memcpy(bytes + sizeof(hello), path, sizeof(path) - 1);
	set_header(bytes, PISTE_MESSAGE_HELLO, sizeof(hello) + sizeof(path) - 1);
	return sizeof(hello) + sizeof(path) - 1;
}

/* One event with one field, described as a program does. */
static size_t good_events(uint8_t *bytes)
{
	struct piste_message_events events;
	struct piste_event_description event = {48, 0, PISTE_LEVEL_INFO, 0, 1, 4, 4};
	struct piste_field_description field = {
	        24, PISTE_FIELD_SCALAR, PISTE_ELEMENT_INT32, PISTE_BASE_DECIMAL, 0, 2, 0, 0};
	size_t total = sizeof(events) + 48;

	memset(bytes, 0, total);
	memset(&events, 0, sizeof(events));
	events.module_id = 1;
	events.event_count = 1;
	memcpy(bytes, &events, sizeof(events));
	memcpy(bytes + sizeof(events), &event, sizeof(event));
	memcpy(bytes + sizeof(events) + sizeof(event), "evilevil", 8);
	memcpy(bytes + sizeof(events) + sizeof(event) + 8, &field, sizeof(field));
	memcpy(bytes + sizeof(events) + sizeof(event) + 8 + sizeof(field), "id", 2);
	set_header(bytes, PISTE_MESSAGE_EVENTS, (uint32_t)total);
	return total;
}

static void change_some_bytes(uint8_t *bytes, size_t count)
{
	for (uint32_t change = 1 + random_below(4); change > 0; change--)
		bytes[sizeof(struct piste_message) + random_below((uint32_t)(count - sizeof(struct piste_message)))] =
		        (uint8_t)random_below(256);
}

static bool send_bytes(int file, const uint8_t *bytes, size_t count)
{
	return send(file, bytes, count, MSG_NOSIGNAL) >= 0;
}

static bool send_with_descriptors(int file, const uint8_t *bytes, size_t count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr header;
	} control;
	struct iovec part = {(void *)(uintptr_t)bytes, count};
	struct msghdr datagram;
	int files[8];

	memset(&control, 0, sizeof(control));
	memset(&datagram, 0, sizeof(datagram));
	datagram.msg_iov = &part;
	datagram.msg_iovlen = 1;
	datagram.msg_control = control.bytes;
	datagram.msg_controllen = sizeof(control.bytes);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(files));
	for (int index = 0; index < 8; index++)
		files[index] = file;
	memcpy(CMSG_DATA(&control.header), files, sizeof(files));
	return sendmsg(file, &datagram, MSG_NOSIGNAL) >= 0;
}

static bool send_something(int file, uint8_t *bytes)
{
	static const uint32_t types[] = {1, 2, 3, 4, 16, 17, 18, 19, 20, 32, 33, 0, 99, 0xffffffff};
	uint32_t total = 1 + random_below(random_below(4) ? 512 : PISTE_MESSAGE_BYTES_MAX);

	switch (random_below(7)) {
	case 0:
		fill_randomly(bytes, total);
		return send_bytes(file, bytes, total);
	case 1:
		fill_randomly(bytes, total + sizeof(struct piste_message));
		total += sizeof(struct piste_message);
		if (total > PISTE_MESSAGE_BYTES_MAX)
			total = PISTE_MESSAGE_BYTES_MAX;
		set_header(bytes, types[random_below(sizeof(types) / sizeof(types[0]))], total);
		return send_bytes(file, bytes, total);
	case 2:
		fill_randomly(bytes, 256);
		set_header(bytes, types[random_below(11)], random_below(1 << 20));
		return send_bytes(file, bytes, 256);
	case 3:
		total = (uint32_t)good_hello(bytes);
		change_some_bytes(bytes, total);
		return send_bytes(file, bytes, total);
	case 4:
		total = (uint32_t)good_events(bytes);
		change_some_bytes(bytes, total);
		return send_bytes(file, bytes, total);
	case 5:
		total = (uint32_t)good_events(bytes);
		return send_with_descriptors(file, bytes, total);
	default:
		/* The largest event count with nothing behind it. */
		total = sizeof(struct piste_message_events);
		memset(bytes, 0xff, total);
		set_header(bytes, PISTE_MESSAGE_EVENTS, total);
		return send_bytes(file, bytes, total);
	}
}

int main(int argc, char **argv)
{
	static uint8_t bytes[2 * PISTE_MESSAGE_BYTES_MAX];
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, connected = 0;
	int silent[50];

	state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	/* Some that say nothing at all. */
	for (int index = 0; index < 50; index++)
		silent[index] = connect_to_pisted();
	for (unsigned long round = 0; round < rounds; round++) {
		int file = connect_to_pisted();
		bool alive = file >= 0;

		connected += alive;
		if (alive && random_below(4))
			alive = send_bytes(file, bytes, good_hello(bytes)) &&
			        send_bytes(file, bytes, good_events(bytes));
		for (int message = 0; alive && message < 20; message++)
			alive = send_something(file, bytes);
		if (file >= 0)
			close(file);
	}
	for (int index = 0; index < 50; index++)
		close(silent[index]);
	printf("%lu\n", connected);
	return 0;
}
