/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * attack WHAT: takes what it can get of pisted at $PISTE_RUNDIR, without end, until standard input closes. `all` does everything below at
 * once, each in a thread of its own. `attack hog THREADS` leaves pisted alone and computes, for comparison.
 * It says "running THREADS" once each thread got something, and at the end a line "WHAT COUNT" for each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <piste/abi/event.h>
#include <piste/abi/protocol.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD_COUNT_MAX         1500u
#define EVENTS_IN_A_MESSAGE    900u
#define FORKED_COUNT_MAX       16u
#define SENT_DESCRIPTOR_COUNT  253u
#define SCRIBBLED_BYTES_MAX    (1u << 20)
#define THREAD_COUNT_MAX       64u
#define MESSAGES_ON_CONNECTION 64u

struct attacker;

struct attack {
	const char *name;
	/* Runs again and again. Counts what it got in `attacker->count`. */
	void (*once)(struct attacker *attacker);
};

struct attacker {
	const struct attack *attack;
	_Atomic uint64_t count;
	uint64_t random;
	/* Connections that are kept, the oldest first to go. */
	int held[HELD_COUNT_MAX];
	uint32_t next_held;
	uint32_t forked_count;
	uint8_t bytes[PISTE_MESSAGE_BYTES_MAX];
};

static struct attacker attackers[THREAD_COUNT_MAX];
static _Atomic uint64_t instance_id;

/* ---- Connections and messages ---- */

static int connect_to(const char *name, int type)
{
	struct sockaddr_un address = {AF_UNIX, {0}};
	struct timeval patience = {1, 0};
	int file = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	if (file < 0)
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", getenv("PISTE_RUNDIR"), name);
	setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(file, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(file);
		return -1;
	}
	return file;
}

/* Whether it was sent; a message of which less was sent is none. */
static bool send_message(struct attacker *attacker, int file, uint32_t type, size_t count)
{
	struct piste_message message = {PISTE_MESSAGE_MAGIC, type, (uint32_t)count, 0};

	memcpy(attacker->bytes, &message, sizeof(message));
	return send(file, attacker->bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

static bool say_hello(struct attacker *attacker, int file, size_t path_bytes)
{
	struct piste_message_hello hello;

	memset(&hello, 0, sizeof(hello));
	hello.version_major = PISTE_ABI_MAJOR;
	hello.struct_bytes = sizeof(hello);
	hello.instance_id = (uint64_t)getpid() << 32 | (uint32_t)atomic_fetch_add(&instance_id, 1);
	hello.vpid = getpid();
	hello.pointer_bits = 64;
	hello.path_bytes = (uint32_t)path_bytes;
	memcpy(hello.process_name, "attack", 6);
	memset(attacker->bytes + sizeof(hello), 'x', path_bytes);
	memcpy(attacker->bytes, &hello, sizeof(hello));
	return send_message(attacker, file, PISTE_MESSAGE_HELLO, sizeof(hello) + path_bytes);
}

/* A registered program's connection, or -1. */
static int register_program(struct attacker *attacker)
{
	int file = connect_to("app.sock", SOCK_SEQPACKET);

	if (file >= 0 && !say_hello(attacker, file, 0)) {
		close(file);
		return -1;
	}
	return file;
}

/* An event attack:take with one field, whose name has the number. Returns where the next one goes. */
static size_t describe(uint8_t *bytes, size_t offset, uint32_t index, uint32_t number)
{
	struct piste_event_description event = {56, index, PISTE_LEVEL_INFO, 0, 1, 6, 4};
	struct piste_field_description field = {
	        24, PISTE_FIELD_SCALAR, PISTE_ELEMENT_INT32, PISTE_BASE_DECIMAL, 0, 6, 0, 0};
	char name[16];

	snprintf(name, sizeof(name), "%06u", number % 1000000);
	memset(bytes + offset, 0, 56);
	memcpy(bytes + offset, &event, sizeof(event));
	memcpy(bytes + offset + sizeof(event), "attacktake", 10);
	memcpy(bytes + offset + sizeof(event) + 16, &field, sizeof(field));
	memcpy(bytes + offset + sizeof(event) + 16 + sizeof(field), name, 6);
	return offset + 56;
}

static bool send_events(struct attacker *attacker, int file, uint32_t module_id, uint32_t first, uint32_t count)
{
	struct piste_message_events events;
	size_t total = sizeof(events);

	memset(&events, 0, sizeof(events));
	events.module_id = module_id;
	events.event_count = count;
	for (uint32_t index = 0; index < count; index++)
		total = describe(attacker->bytes, total, index, first + index);
	memcpy(attacker->bytes, &events, sizeof(events));
	return send_message(attacker, file, PISTE_MESSAGE_EVENTS, total);
}

static bool send_sync(struct attacker *attacker, int file)
{
	memset(attacker->bytes, 0, sizeof(struct piste_message_sync));
	return send_message(attacker, file, PISTE_MESSAGE_SYNC, sizeof(struct piste_message_sync));
}

/* Reads a message, and the descriptor that came with it; -1 without. Whether there was a message. */
static bool receive(struct attacker *attacker, int file, int *descriptor)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {attacker->bytes, sizeof(attacker->bytes)};
	struct msghdr message = {
	        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header;

	*descriptor = -1;
	if (recvmsg(file, &message, MSG_CMSG_CLOEXEC) <= 0)
		return false;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(descriptor, CMSG_DATA(header), sizeof(int));
	return true;
}

/* Asks, and reads until the answer comes. Returns the memory of the last channel that came before, or -1. */
static bool wait_until_served(struct attacker *attacker, int file, int *memory)
{
	struct piste_message message;
	int descriptor;

	*memory = -1;
	if (!send_sync(attacker, file))
		return false;
	do {
		if (!receive(attacker, file, &descriptor))
			return false;
		if (descriptor >= 0) {
			if (*memory >= 0)
				close(*memory);
			*memory = descriptor;
		}
		memcpy(&message, attacker->bytes, sizeof(message));
	} while (message.type != PISTE_MESSAGE_SYNCED);
	return true;
}

static void close_if_open(int file)
{
	if (file >= 0)
		close(file);
}

/* Keeps a connection, instead of the oldest one. */
static void hold(struct attacker *attacker, int file)
{
	int *place = &attacker->held[attacker->next_held++ % HELD_COUNT_MAX];

	if (file < 0)
		return;
	if (*place > 0)
		close(*place);
	*place = file;
	attacker->count++;
}

static uint64_t random_number(struct attacker *attacker)
{
	attacker->random = attacker->random * 6364136223846793005u + 1442695040888963407u;
	return attacker->random >> 20 ^ attacker->random << 44;
}

/* ---- What it does ---- */

/* Classes of one name, as many as there can be and more. */
static void take_classes(struct attacker *attacker)
{
	int file = register_program(attacker);
	uint32_t sent = 0;

	while (file >= 0 && sent < 70000 && send_events(attacker, file, sent + 1, sent, EVENTS_IN_A_MESSAGE)) {
		sent += EVENTS_IN_A_MESSAGE;
		attacker->count += EVENTS_IN_A_MESSAGE;
	}
	close_if_open(file);
}

/* HELLOs with the longest path that there may be, and with longer ones. */
static void say_long_hellos(struct attacker *attacker)
{
	int file = connect_to("app.sock", SOCK_SEQPACKET);

	if (file >= 0 && say_hello(attacker, file, random_number(attacker) % 2 ? 4096 : 60000))
		attacker->count++;
	close_if_open(file);
}

/* Programs that register with an event, get their rings, and stay. */
static void take_ring_sets(struct attacker *attacker)
{
	int file = register_program(attacker), memory = -1;

	if (file < 0)
		return;
	if (send_events(attacker, file, 1, 0, 1) && wait_until_served(attacker, file, &memory))
		hold(attacker, file);
	else
		close(file);
	close_if_open(memory);
}

static void take_connections(struct attacker *attacker)
{
	hold(attacker, connect_to("app.sock", SOCK_SEQPACKET));
}

static void ask_and_never_read(struct attacker *attacker)
{
	int file = register_program(attacker);

	while (file >= 0 && send_sync(attacker, file))
		attacker->count++;
	close_if_open(file);
}

/* Libraries that come and go. */
static void load_and_unload(struct attacker *attacker)
{
	int file = register_program(attacker);

	for (uint32_t module = 1; file >= 0 && module <= MESSAGES_ON_CONNECTION; module++) {
		struct piste_message_module_gone gone;

		if (!send_events(attacker, file, module, module, EVENTS_IN_A_MESSAGE))
			break;
		memset(&gone, 0, sizeof(gone));
		gone.module_id = module;
		memcpy(attacker->bytes, &gone, sizeof(gone));
		if (!send_message(attacker, file, PISTE_MESSAGE_MODULE_GONE, sizeof(gone)))
			break;
		attacker->count++;
	}
	close_if_open(file);
}

/* Programs with as many events as one may have, all the same, that stay. */
static void take_events(struct attacker *attacker)
{
	int file = register_program(attacker);
	uint32_t sent = 0;

	while (file >= 0 && sent + EVENTS_IN_A_MESSAGE <= 65536 &&
	       send_events(attacker, file, sent + 1, sent, EVENTS_IN_A_MESSAGE))
		sent += EVENTS_IN_A_MESSAGE;
	hold(attacker, file);
}

/* Modules without an event. */
static void send_no_events(struct attacker *attacker)
{
	int file = register_program(attacker);

	for (uint32_t module = 1; file >= 0 && module <= 100000; module++) {
		if (!send_events(attacker, file, module % 4096, 0, 0))
			break;
		attacker->count++;
	}
	close_if_open(file);
}

/* Messages of every type with anything in them. */
static void send_garbage(struct attacker *attacker)
{
	int file = register_program(attacker);

	if (file < 0)
		return;
	for (size_t offset = 0; offset < sizeof(attacker->bytes); offset += 8) {
		uint64_t word = random_number(attacker);

		memcpy(attacker->bytes + offset, &word, sizeof(word));
	}
	if (send_message(attacker, file, (uint32_t)random_number(attacker) % 40,
	                 sizeof(struct piste_message) + random_number(attacker) % 60000))
		attacker->count++;
	close(file);
}

/* Each descriptor that is sent takes one of pisted's, until it is closed there. */
static void send_descriptors(struct attacker *attacker)
{
	static _Atomic int null_file = -1;
	char control[CMSG_SPACE(SENT_DESCRIPTOR_COUNT * sizeof(int))];
	struct piste_message_sync sync = {{PISTE_MESSAGE_MAGIC, PISTE_MESSAGE_SYNC, sizeof(sync), 0}, 1};
	struct iovec part = {&sync, sizeof(sync)};
	struct msghdr message = {
	        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int file = register_program(attacker);

	if (null_file < 0)
		null_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	memset(control, 0, sizeof(control));
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(SENT_DESCRIPTOR_COUNT * sizeof(int));
	for (uint32_t index = 0; index < SENT_DESCRIPTOR_COUNT; index++) {
		int descriptor = null_file;

		memcpy(CMSG_DATA(header) + index * sizeof(int), &descriptor, sizeof(int));
	}
	for (uint32_t sent = 0; file >= 0 && sent < MESSAGES_ON_CONNECTION; sent++) {
		if (sendmsg(file, &message, MSG_NOSIGNAL) < 0)
			break;
		attacker->count++;
	}
	close_if_open(file);
}

/* Anything, anywhere in the rings that pisted reads. */
static void scribble(struct attacker *attacker)
{
	int file = register_program(attacker), memory = -1;
	struct stat about;

	if (file >= 0 && send_events(attacker, file, 1, 0, 1) && wait_until_served(attacker, file, &memory) &&
	    memory >= 0 && fstat(memory, &about) == 0) {
		size_t bytes = about.st_size < SCRIBBLED_BYTES_MAX ? (size_t)about.st_size : SCRIBBLED_BYTES_MAX;
		uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

		for (uint32_t written = 0; words != MAP_FAILED && written < 100000; written++) {
			/* Mostly where the headers are. */
			size_t among = written % 2 ? bytes / 8 : 1024;

			words[random_number(attacker) % among] =
			        random_number(attacker) >> random_number(attacker) % 64;
		}
		if (words != MAP_FAILED) {
			munmap(words, bytes);
			attacker->count++;
		}
	}
	close_if_open(memory);
	close_if_open(file);
}

/* Processes that do something and end, a few at a time. */
static void fork_and(struct attacker *attacker, void (*act)(struct attacker *attacker))
{
	pid_t child;

	if (attacker->forked_count >= FORKED_COUNT_MAX && waitpid(-1, NULL, 0) > 0)
		attacker->forked_count--;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		act(attacker);
		_exit(0);
	}
	if (child > 0) {
		attacker->forked_count++;
		attacker->count++;
	}
}

static void register_and_wait(struct attacker *attacker)
{
	int file = register_program(attacker), memory;

	if (file >= 0 && send_events(attacker, file, 1, 0, 1))
		wait_until_served(attacker, file, &memory);
}

static void fork_programs(struct attacker *attacker)
{
	fork_and(attacker, register_and_wait);
}

/* Leaves all that the socket holds to be taken after the end. */
static void talk(struct attacker *attacker)
{
	int file = register_program(attacker);

	for (uint32_t module = 1; file >= 0 && module <= 1000; module++)
		if (!send_events(attacker, file, module, module * 50, 50))
			break;
}

static void die_talking(struct attacker *attacker)
{
	fork_and(attacker, talk);
}

static void take_control_connections(struct attacker *attacker)
{
	hold(attacker, connect_to("control.sock", SOCK_STREAM));
}

/* A request that never ends. */
static void send_endless_line(struct attacker *attacker)
{
	int file = connect_to("control.sock", SOCK_STREAM);

	memset(attacker->bytes, 'x', sizeof(attacker->bytes));
	while (file >= 0 && send(file, attacker->bytes, sizeof(attacker->bytes), MSG_NOSIGNAL) > 0)
		attacker->count++;
	close_if_open(file);
}

/* Good requests with long answers, as many as pisted takes; an answer is read when nothing else goes. */
static void send_requests(struct attacker *attacker)
{
	static const char *const methods[] = {"ListSessions", "ListPrograms", "Status", "Version", "DestroySession"};
	int file = connect_to("control.sock", SOCK_STREAM);

	for (uint32_t sent = 0; file >= 0 && sent < 1000; sent++) {
		int length = snprintf((char *)attacker->bytes, sizeof(attacker->bytes),
		                      "{\"method\":\"dev.piste.Control.%s\",\"parameters\":{}}", methods[sent % 5]) +
		             1;

		if (send(file, attacker->bytes, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length)
			attacker->count++;
		else if (errno != EAGAIN || recv(file, attacker->bytes, sizeof(attacker->bytes), 0) <= 0)
			break;
	}
	close_if_open(file);
}

static const struct attack attacks[] = {
        {"classes", take_classes},
        {"long-hellos", say_long_hellos},
        {"ring-sets", take_ring_sets},
        {"connections", take_connections},
        {"unread-answers", ask_and_never_read},
        {"libraries", load_and_unload},
        {"events", take_events},
        {"no-events", send_no_events},
        {"garbage", send_garbage},
        {"descriptors", send_descriptors},
        {"ring-memory", scribble},
        {"forks", fork_programs},
        {"last-words", die_talking},
        {"control-connections", take_control_connections},
        {"control-lines", send_endless_line},
        {"control-requests", send_requests},
};

#define ATTACK_COUNT (sizeof(attacks) / sizeof(attacks[0]))

static void compute(struct attacker *attacker)
{
	for (uint32_t step = 0; step < 1000000; step++)
		random_number(attacker);
	attacker->count++;
}

static const struct attack hog = {"hog", compute};

/* ---- Threads ---- */

static void *run(void *argument)
{
	struct attacker *attacker = argument;

	for (;;)
		attacker->attack->once(attacker);
	return NULL;
}

/* How many threads there are to be, each with its attack; 0 where nothing such is known. */
static uint32_t choose(int argument_count, char **arguments)
{
	const char *what = argument_count > 1 ? arguments[1] : "";
	uint32_t count = 0;

	if (strcmp(what, "hog") == 0 && argument_count > 2) {
		unsigned long wanted = strtoul(arguments[2], NULL, 10);

		while (count < wanted && count < THREAD_COUNT_MAX)
			attackers[count++].attack = &hog;
		return count;
	}
	for (uint32_t index = 0; index < ATTACK_COUNT; index++)
		if (strcmp(what, "all") == 0 || strcmp(what, attacks[index].name) == 0)
			attackers[count++].attack = &attacks[index];
	return count;
}

int main(int argument_count, char **arguments)
{
	uint32_t thread_count = choose(argument_count, arguments);
	struct rlimit files;
	char end;

	if (argument_count > 1 && strcmp(arguments[1], "list") == 0) {
		for (uint32_t index = 0; index < ATTACK_COUNT; index++)
			printf("%s\n", attacks[index].name);
		return 0;
	}
	if (thread_count == 0) {
		fprintf(stderr, "attack list | all | WHAT | hog THREADS\n");
		return 2;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (uint32_t index = 0; index < thread_count; index++) {
		pthread_t thread;

		attackers[index].random = index + 1;
		if (pthread_create(&thread, NULL, run, &attackers[index]) != 0)
			return 1;
	}
	for (uint32_t index = 0; index < thread_count; index++)
		while (attackers[index].count == 0)
			usleep(1000);
	printf("running %u\n", thread_count);
	fflush(stdout);
	while (read(STDIN_FILENO, &end, 1) > 0)
		;
	for (uint32_t index = 0; index < thread_count; index++)
		printf("%s %llu\n", attackers[index].attack->name, (unsigned long long)attackers[index].count);
	fflush(stdout);
	_exit(0);
}
