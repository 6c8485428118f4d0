/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A daemon that programs should not trust, at $PISTE_RUNDIR/app.sock. It says `listening` first.
 *
 *   hostile_daemon refusals        offers one program channels with one thing wrong each, and prints those that it does not refuse;
 *                                  then a good one, and records with it until standard input closes: prints `good` once it has events
 *   hostile_daemon SEED rounds N   as often, or for as long, a new daemon that sends a program senseless messages and channels, and
 *   hostile_daemon SEED seconds N  writes over the memory that it shares with programs; prints at the end how many channels they had
 *                                  attached and refused
 */
#define _GNU_SOURCE
#include "channel_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <piste/abi/event.h>
#include <piste/abi/filter.h>
#include <piste/abi/protocol.h>
#include <piste/abi/ring.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define KEPT_COUNT  12
#define KEY_COUNT   20
#define FILES_EXTRA 3

static uint64_t state;

static uint64_t random_number(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 20 ^ state << 44;
}

static uint32_t random_below(uint32_t limit)
{
	return (uint32_t)(random_number() >> 8) % limit;
}

/* ---- Messages ---- */

static struct piste_message message_of(uint32_t type, size_t bytes)
{
	struct piste_message message = {PISTE_MESSAGE_MAGIC, type, (uint32_t)bytes, 0};

	return message;
}

/* With `file_count` copies of the descriptor. */
static bool send_files(int socket, const void *bytes, size_t count, int file, size_t file_count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr header;
	} control;
	struct iovec part = {(void *)(uintptr_t)bytes, count};
	struct msghdr datagram;

	memset(&control, 0, sizeof(control));
	memset(&datagram, 0, sizeof(datagram));
	datagram.msg_iov = &part;
	datagram.msg_iovlen = 1;
	if (file_count > 0) {
		datagram.msg_control = control.bytes;
		datagram.msg_controllen = CMSG_SPACE(file_count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(file_count * sizeof(int));
		for (size_t index = 0; index < file_count; index++)
			memcpy(CMSG_DATA(&control.header) + index * sizeof(int), &file, sizeof(file));
	}
	return sendmsg(socket, &datagram, MSG_NOSIGNAL) == (ssize_t)count;
}

static bool send_channel(int socket, uint32_t key, uint32_t replaces, int memory, size_t file_count)
{
	struct piste_message_channel channel = {message_of(PISTE_MESSAGE_CHANNEL, sizeof(channel)), key, replaces};

	return send_files(socket, &channel, sizeof(channel), memory, file_count);
}

static bool send_bell(int socket, int board, uint32_t bell_index)
{
	struct piste_message_bell bell = {message_of(PISTE_MESSAGE_BELL, sizeof(bell)), bell_index, 0};

	return send_files(socket, &bell, sizeof(bell), board, board >= 0);
}

static bool send_sync(int socket, uint32_t type, uint64_t token)
{
	struct piste_message_sync sync = {message_of(type, sizeof(sync)), token};

	return send_files(socket, &sync, sizeof(sync), -1, 0);
}

static bool send_enable(int socket, uint32_t type, uint32_t key, uint32_t claimed,
                        const struct piste_enabled_event *events, uint32_t count)
{
	uint8_t bytes[sizeof(struct piste_message_enable) + 16 * sizeof(*events)];
	struct piste_message_enable enable = {message_of(type, sizeof(enable) + count * sizeof(*events)), key, claimed};

	memcpy(bytes, &enable, sizeof(enable));
	memcpy(bytes + sizeof(enable), events, count * sizeof(*events));
	return send_files(socket, bytes, enable.message.total_bytes, -1, 0);
}

/* The program's next message, 0 when there is none within the time. */
static uint32_t receive(int socket, void *bytes, size_t capacity, int timeout_ms)
{
	struct pollfd file = {socket, POLLIN, 0};

	if (poll(&file, 1, timeout_ms) <= 0 || recv(socket, bytes, capacity, 0) < (ssize_t)sizeof(struct piste_message))
		return 0;
	return ((struct piste_message *)bytes)->type;
}

static int listen_for_programs(void)
{
	struct sockaddr_un address = {AF_UNIX, {0}};
	int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/app.sock", getenv("PISTE_RUNDIR"));
	unlink(address.sun_path);
	if (bind(file, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(file, 16) != 0) {
		perror("hostile_daemon: app.sock");
		exit(1);
	}
	return file;
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

/* As a daemon that starts, so that programs which wait for one look for it. */
static void change_state_page(void)
{
	char path[PATH_MAX];
	uint32_t *page;
	int file;

	snprintf(path, sizeof(path), "%s/state", getenv("PISTE_RUNDIR"));
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	page = ftruncate(file, sizeof(*page)) != 0
	               ? MAP_FAILED
	               : mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (page == MAP_FAILED) {
		perror("hostile_daemon: state");
		exit(1);
	}
	__atomic_fetch_add(page, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, page, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	munmap(page, sizeof(*page));
}

/* ---- Channels with one thing wrong ---- */

static struct wrong {
	const char *what;
	size_t offset, bytes;
	uint64_t value;
} wrongs[] = {
#define WRONG(field, value)                                                                                            \
	{                                                                                                              \
#field " = " #value, offsetof(struct piste_channel_header, field),                                     \
		        sizeof(((struct piste_channel_header *)0)->field), value                                       \
	}
        WRONG(magic, 0),
        WRONG(version_major, PISTE_ABI_MAJOR + 1),
        WRONG(version_minor, PISTE_ABI_MINOR + 1),
        WRONG(struct_bytes, sizeof(struct piste_channel_header) - 8),
        WRONG(struct_bytes, sizeof(struct piste_channel_header) + 8),
        WRONG(key, 77),
        WRONG(loss_mode, 3),
        WRONG(clock, 2),
        WRONG(contexts, 4),
        WRONG(contexts, 0xffffffff),
        WRONG(ring_count, 0),
        WRONG(ring_count, 65),
        WRONG(ring_count, PISTE_RING_COUNT_MAX + 1),
        WRONG(subbuf_bytes, 0),
        WRONG(subbuf_bytes, 2048),
        WRONG(subbuf_bytes, 6000),
        WRONG(subbuf_bytes, 16384),
        WRONG(subbuf_bytes, 128 << 20),
        WRONG(subbuf_count, 0),
        WRONG(subbuf_count, 1),
        WRONG(subbuf_count, 3),
        WRONG(subbuf_count, 4),
        WRONG(subbuf_count, 8192),
        WRONG(marks_offset_bytes, 0),
        WRONG(marks_offset_bytes, 512),
        WRONG(marks_offset_bytes, 4096),
        WRONG(marks_offset_bytes, 1 << 30),
        WRONG(marks_offset_bytes, 0xfffff000),
        WRONG(marks_offset_bytes, (uint64_t)1 << 63),
        WRONG(marks_offset_bytes, UINT64_MAX - 4095),
        WRONG(ring_offset_bytes, 0),
        WRONG(ring_offset_bytes, 4100),
        WRONG(ring_offset_bytes, UINT64_MAX - 4095),
        WRONG(ring_offset_bytes, (uint64_t)1 << 63),
        WRONG(ring_stride_bytes, 0),
        WRONG(ring_stride_bytes, 4096),
        WRONG(ring_stride_bytes, 24576),
        WRONG(ring_stride_bytes, (uint64_t)1 << 58),
        WRONG(ring_stride_bytes, (uint64_t)1 << 63),
        WRONG(total_bytes, 0),
        WRONG(total_bytes, UINT64_MAX),
        WRONG(more_count, 1), /* Of no kind. */
        WRONG(more_count, PISTE_MORE_COUNT_MAX + 1),
        WRONG(more_count, 0xffffffff),
        WRONG(reserved_0[0], 1),
        WRONG(reserved_0[11], 1),
};

/* Whether the program refuses the channel for its layout. */
static bool is_refused(int socket, uint32_t key, int memory)
{
	union {
		struct piste_message_refused refused;
		uint8_t bytes[PISTE_MESSAGE_BYTES_MAX];
	} answer;
	bool refused = false;
	uint32_t type;

	send_channel(socket, key, 0, memory, 1);
	close(memory);
	send_sync(socket, PISTE_MESSAGE_SYNC, key);
	do {
		type = receive(socket, &answer, sizeof(answer), 60000);
		if (type == PISTE_MESSAGE_REFUSED)
			refused = answer.refused.reason == PISTE_REFUSED_LAYOUT;
	} while (type != PISTE_MESSAGE_SYNCED && type != 0);
	send_channel(socket, key, 0, -1, 0);
	return refused;
}

static int open_memory_without_seals(const struct piste_channel_header *header)
{
	return make_memory(header, header->total_bytes, 0);
}

static int open_memory_that_grows(const struct piste_channel_header *header)
{
	return make_memory(header, header->total_bytes, F_SEAL_SHRINK | F_SEAL_SEAL);
}

static int open_larger_memory(const struct piste_channel_header *header)
{
	return make_memory(header, header->total_bytes + PAGE, SEALS);
}

static int open_file(const struct piste_channel_header *header)
{
	char path[] = "/tmp/hostile-XXXXXX";
	int file = mkstemp(path);

	unlink(path);
	if (ftruncate(file, (off_t)header->total_bytes) != 0 || pwrite(file, header, sizeof(*header), 0) < 0)
		perror("hostile_daemon: file");
	return file;
}

static int open_pipe(const struct piste_channel_header *header)
{
	int ends[2];

	(void)header;
	if (pipe(ends) != 0)
		return -1;
	close(ends[1]);
	return ends[0];
}

static void detach(int socket, uint32_t key)
{
	struct piste_message_channel gone = {message_of(PISTE_MESSAGE_CHANNEL_GONE, sizeof(gone)), key, 0};

	send_files(socket, &gone, sizeof(gone), -1, 0);
}

static int make_board(uint64_t bytes, int seals)
{
	int board = memfd_create("board", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(board, (off_t)bytes) != 0 || fcntl(board, F_ADD_SEALS, seals) != 0)
		perror("hostile_daemon: board");
	return board;
}

/* Good channels whose bells are not. */
static void offer_wrong_bells(int socket, uint32_t key)
{
	static const struct {
		const char *what;
		uint64_t bytes;
		int seals;
		uint32_t bell_index;
	} bells[] = {
	        {"a board without seals", PISTE_BOARD_BYTES, F_SEAL_SEAL, 0},
	        {"a board that can shrink", PISTE_BOARD_BYTES, F_SEAL_GROW | F_SEAL_SEAL, 0},
	        {"a board of no bytes", 0, SEALS, 0},
	        {"a small board", PAGE, SEALS, 0},
	        {"a large board", 2 * PISTE_BOARD_BYTES, SEALS, 0},
	        {"a bell behind the board", PISTE_BOARD_BYTES, SEALS, PISTE_BOARD_BYTES / sizeof(uint32_t)},
	        {"a bell far behind the board", PISTE_BOARD_BYTES, SEALS, UINT32_MAX},
	};

	for (size_t index = 0; index < sizeof(bells) / sizeof(bells[0]); index++, key++) {
		struct piste_channel_header header = good_header(key, 8192, 2);
		int board = make_board(bells[index].bytes, bells[index].seals);

		send_bell(socket, board, bells[index].bell_index);
		close(board);
		if (!is_refused(socket, key, make_memory(&header, header.total_bytes, SEALS)))
			printf("not refused: %s\n", bells[index].what);
		detach(socket, key);
	}
}

static void offer_wrong_channels(int socket)
{
	static const struct {
		const char *what;
		int (*open)(const struct piste_channel_header *header);
	} files[] = {
	        {"memory without seals", open_memory_without_seals},
	        {"memory that can grow", open_memory_that_grows},
	        {"memory larger than stated", open_larger_memory},
	        {"a file", open_file},
	        {"a pipe", open_pipe},
	};
	uint32_t key = 1;

	for (size_t index = 0; index < sizeof(wrongs) / sizeof(wrongs[0]); index++, key++) {
		struct piste_channel_header header = good_header(key, 8192, 2);
		uint64_t bytes = header.total_bytes;

		memcpy((uint8_t *)&header + wrongs[index].offset, &wrongs[index].value, wrongs[index].bytes);
		/* A size that the file can have is no reason to refuse. */
		if (header.total_bytes != bytes && header.total_bytes < (uint64_t)1 << 40)
			bytes = header.total_bytes < PAGE ? PAGE : header.total_bytes;
		if (!is_refused(socket, key, make_memory(&header, bytes, SEALS)))
			printf("not refused: %s\n", wrongs[index].what);
		detach(socket, key);
	}
	for (size_t index = 0; index < sizeof(files) / sizeof(files[0]); index++, key++) {
		struct piste_channel_header header = good_header(key, 8192, 2);

		if (!is_refused(socket, key, files[index].open(&header)))
			printf("not refused: %s\n", files[index].what);
		detach(socket, key);
	}
	offer_wrong_bells(socket, key);
}

static int check_refusals(void)
{
	int listener = listen_for_programs(), socket, memory;
	struct piste_channel_header header = good_header(1000, 65536, 4);
	struct piste_enabled_event events[16];
	uint8_t *shared;
	bool recorded = false;
	char end;

	say("listening");
	socket = accept(listener, NULL, NULL);
	offer_wrong_channels(socket);
	memory = make_memory(&header, header.total_bytes, SEALS);
	shared = mmap(NULL, header.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	send_channel(socket, header.key, 0, memory, 1);
	for (uint32_t index = 0; index < 16; index++)
		events[index] = (struct piste_enabled_event){1 + index / 8, index % 8, index, 0};
	send_enable(socket, PISTE_MESSAGE_ENABLE, header.key, 16, events, 16);
	/* The program waits for it, and then starts to record. */
	send_sync(socket, PISTE_MESSAGE_SYNCED, 0x7fffffff);
	while (read(STDIN_FILENO, &end, 1) > 0)
		;
	for (uint32_t ring = 0; ring < header.ring_count; ring++) {
		struct piste_ring_header *words = (struct piste_ring_header *)(shared + header.ring_offset_bytes +
		                                                               ring * header.ring_stride_bytes);

		recorded |= words->position != 0;
	}
	say(recorded ? "good" : "nothing recorded in a good channel");
	return 0;
}

/* ---- Anything at all ---- */

/* What programs may have mapped. */
static struct kept {
	uint8_t *memory;
	struct piste_channel_header header;
} kept[KEPT_COUNT];

static unsigned long attached, refused;

static void keep(const struct piste_channel_header *header, int memory)
{
	struct kept *place = &kept[random_below(KEPT_COUNT)];

	if (place->memory)
		munmap(place->memory, place->header.total_bytes);
	place->header = *header;
	place->memory = mmap(NULL, header->total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (place->memory == MAP_FAILED)
		place->memory = NULL;
}

static void scribble(void)
{
	struct kept *place = &kept[random_below(KEPT_COUNT)];

	for (uint32_t count = place->memory ? random_below(64) : 0; count > 0; count--) {
		struct piste_channel_header *header = &place->header;
		uint64_t offset = header->ring_offset_bytes + random_below(4) * header->ring_stride_bytes,
		         value = random_number();

		switch (random_below(5)) {
		case 0:
			offset = random_below(2) ? offsetof(struct piste_channel_header, active_key)
			                         : random_below(PAGE);
			break;
		case 1:
			offset += random_below(sizeof(struct piste_ring_header));
			break;
		case 2:
			offset += header->marks_offset_bytes - 1 -
			          random_below((uint32_t)sizeof(struct piste_subbuf) * header->subbuf_count);
			break;
		case 3:
			offset += header->marks_offset_bytes + random_below(PAGE);
			break;
		default:
			offset = random_number() % header->total_bytes;
		}
		/* Small numbers and near misses get further than random ones. */
		if (value % 4 == 0)
			value >>= 50;
		else if (value % 4 == 1)
			value = *(uint64_t *)(place->memory + (offset & ~UINT64_C(7))) + random_below(5) - 2;
		*(volatile uint64_t *)(place->memory + (offset & ~UINT64_C(7))) = value;
	}
	if (place->memory && random_below(50) == 0)
		madvise(place->memory + PAGE, place->header.total_bytes - PAGE, MADV_REMOVE);
}

/* Any contexts, few of which are of no kind. */
static void choose_contexts(struct piste_channel_header *header)
{
	header->more_count = random_below(PISTE_MORE_COUNT_MAX + 1);
	for (uint32_t index = 0; index < header->more_count; index++) {
		struct piste_context *context = &header->more[index];

		context->kind = 1 + random_below(random_below(64) ? PISTE_CONTEXT_KIND_LAST : 99);
		context->type = random_below(5);
		context->config = random_below(PISTE_USAGE_LAST + 1);
		if (context->kind == PISTE_CONTEXT_APPLICATION)
			for (size_t byte = 0; byte < sizeof(context->name) - (random_below(64) != 0); byte++)
				context->name[byte] = (uint8_t)random_number();
	}
}

/* A good channel, or one with something changed. Never one that blocks for long: that it may, if it is told so. */
static bool offer_channel(int socket)
{
	uint32_t key = 1 + random_below(KEY_COUNT);
	struct piste_channel_header header = good_header(key, PAGE << random_below(6), 2u << random_below(4));
	uint64_t bytes = header.total_bytes;
	int memory;
	bool sent;

	header.loss_mode = random_below(3);
	header.block_timeout_us = random_below(20);
	header.clock = random_below(2);
	header.contexts = random_below(4);
	if (random_below(2))
		choose_contexts(&header);
	if (random_below(2)) {
		memory = make_memory(&header, bytes, SEALS);
		keep(&header, memory);
	} else if (random_below(2)) {
		const struct wrong *wrong = &wrongs[random_below(sizeof(wrongs) / sizeof(wrongs[0]))];

		memcpy((uint8_t *)&header + wrong->offset, &wrong->value, wrong->bytes);
		memory = make_memory(&header, bytes, SEALS);
	} else {
		for (uint32_t count = 1 + random_below(3); count > 0; count--)
			((uint8_t *)&header)[random_below(128)] = (uint8_t)random_number();
		header.block_timeout_us %= 20;
		memory = make_memory(&header, bytes, random_below(4) ? SEALS : (int)random_below(16));
	}
	sent = send_channel(socket, key, random_below(3) ? 0 : 1 + random_below(KEY_COUNT), memory,
	                    1 + (random_below(8) == 0 ? FILES_EXTRA : 0));
	close(memory);
	return sent;
}

/* For the channel that comes next. */
static bool offer_bell(int socket)
{
	int board = make_board(random_below(8) ? PISTE_BOARD_BYTES : random_below(4) * PAGE,
	                       random_below(8) ? SEALS : (int)random_below(16));
	uint32_t bells = PISTE_BOARD_BYTES / sizeof(uint32_t);
	bool sent = send_bell(socket, board, random_below(8) ? random_below(bells) : bells + random_below(9));

	if (random_below(4) == 0 && ftruncate(board, 0) != 0 && errno != EPERM)
		perror("hostile_daemon: board");
	close(board);
	return sent;
}

static bool send_senseless(int socket)
{
	static const uint32_t types[] = {0, 1, 2, 3, 4, 16, 17, 18, 19, 20, 21, 22, 32, 33, 34, 0xffffffff};
	static uint8_t bytes[PISTE_MESSAGE_BYTES_MAX];
	size_t count = sizeof(struct piste_message) + random_below(random_below(8) ? 96 : sizeof(bytes) - 16);
	struct piste_message message = message_of(types[random_below(sizeof(types) / sizeof(types[0]))], count);

	for (size_t index = 0; index < count; index++)
		bytes[index] = (uint8_t)random_number();
	if (random_below(64) == 0)
		message.total_bytes = (uint32_t)random_number();
	memcpy(bytes, &message, sizeof(message));
	return send_files(socket, bytes, count, socket, random_below(16) == 0 ? 1 + random_below(7) : 0);
}

static bool send_enable_or_disable(int socket)
{
	struct piste_enabled_event events[16];
	uint32_t count = random_below(17);

	for (uint32_t index = 0; index < count; index++) {
		events[index].module_id = random_below(16) ? 1 + random_below(4) : (uint32_t)random_number();
		events[index].event_index = random_below(16) ? random_below(8) : (uint32_t)random_number();
		events[index].event_id = random_below(4) ? random_below(64) : (uint32_t)random_number();
		events[index].reserved = (uint32_t)random_number();
	}
	return send_enable(socket, random_below(4) ? PISTE_MESSAGE_ENABLE : PISTE_MESSAGE_DISABLE,
	                   1 + random_below(KEY_COUNT), random_below(16) ? count : (uint32_t)random_number(), events,
	                   count);
}

/* `?`, `*` and bytes. */
static const uint8_t pattern[] = {PISTE_PATTERN_STAR, PISTE_PATTERN_BYTE, 'a', PISTE_PATTERN_ANY,
                                  PISTE_PATTERN_STAR, PISTE_PATTERN_BYTE, 'b'};
static const uint8_t pattern_bytes[] = {0, 1, 3, 4, 5, 7};

static struct piste_instruction random_value(uint32_t place_count)
{
	struct piste_instruction value = {0};

	value.opcode = (uint8_t)(PISTE_FILTER_FIELD + random_below(8));
	value.kind = (uint8_t)(1 + random_below(10));
	value.place = (uint8_t)random_below(place_count);
	value.offset = random_below(4) ? random_below(64) : (uint32_t)random_number();
	value.operand = random_below(4) ? random_below(8) : random_number();
	if (value.opcode == PISTE_FILTER_TEXT)
		value.kind = (uint8_t)(PISTE_FILTER_STRING + random_below(2));
	else if (value.opcode == PISTE_FILTER_CONTEXT)
		value.kind = (uint8_t)(1 + random_below(3));
	else if (value.opcode == PISTE_FILTER_CONSTANT)
		value.operand = (uint64_t)random_below(sizeof(pattern) + 1) << 32;
	return value;
}

/* Of so many values. */
static struct piste_instruction random_test(uint32_t index, bool is_followed, uint32_t values)
{
	struct piste_instruction test = {0};

	test.opcode = (uint8_t)(values == 0   ? PISTE_FILTER_COMPARE_FIELD
	                        : values == 2 ? PISTE_FILTER_COMPARE
	                                      : PISTE_FILTER_LIKE + random_below(3));
	test.kind = (uint8_t)(1 + random_below(8));
	test.comparison = (uint8_t)(1 + random_below(6));
	test.offset = random_below(4) ? random_below(16) : (uint32_t)random_number();
	test.end = test.offset + (1u << ((test.kind - 1) & 3));
	test.operand = random_number() >> random_below(64);
	if (test.opcode == PISTE_FILTER_LIKE || test.opcode == PISTE_FILTER_UNLIKE)
		test.operand = (uint64_t)pattern_bytes[random_below(sizeof(pattern_bytes))] << 32;
	test.if_true = is_followed && random_below(4) ? (uint16_t)(index + 1) : PISTE_FILTER_ACCEPT;
	test.if_false = is_followed && random_below(4) ? (uint16_t)(index + 1) : PISTE_FILTER_REJECT;
	return test;
}

/* Three of four are right. */
static bool send_filter(int socket)
{
	struct {
		struct piste_message_filter message;
		struct piste_filter filter;
		struct piste_instruction instructions[32];
		uint8_t room_for_texts[sizeof(pattern)];
	} filter;
	uint32_t place_count = 1 + random_below(3), count = 0, tests = 1 + random_below(6), bytes;
	uint8_t *byte = (uint8_t *)&filter;

	for (uint32_t place = 1; place < place_count; place++) {
		filter.instructions[count] = random_value(place);
		filter.instructions[count].opcode = PISTE_FILTER_PLACE;
		filter.instructions[count++].kind =
		        (uint8_t)(random_below(2) ? PISTE_FILTER_STRING + random_below(2) : 1 + random_below(10));
	}
	for (; tests > 0; tests--) {
		uint32_t values = random_below(3);

		for (uint32_t value = 0; value < values; value++)
			filter.instructions[count++] = random_value(place_count);
		if (values == 2 && random_below(2)) {
			filter.instructions[count] = (struct piste_instruction){0};
			filter.instructions[count++].opcode = PISTE_FILTER_BITS;
			values = 1;
		}
		filter.instructions[count] = random_test(count, tests > 1, values);
		count++;
	}
	filter.filter = (struct piste_filter){count, sizeof(pattern)};
	memcpy(&filter.instructions[count], pattern, sizeof(pattern));
	bytes = (uint32_t)(sizeof(filter.filter) + count * sizeof(filter.instructions[0]) + sizeof(pattern));
	filter.message = (struct piste_message_filter){message_of(PISTE_MESSAGE_FILTER, sizeof(filter.message) + bytes),
	                                               bytes, 0};
	if (random_below(4) == 0)
		byte[sizeof(filter.message) + random_below(bytes)] = (uint8_t)random_number();
	return send_files(socket, &filter, filter.message.message.total_bytes, -1, 0);
}

static bool send_something(int socket)
{
	struct piste_message_channel dump = {message_of(PISTE_MESSAGE_STATEDUMP, sizeof(dump)),
	                                     1 + random_below(KEY_COUNT), 0};

	switch (random_below(12)) {
	case 0:
	case 1:
	case 2:
		return (random_below(2) || offer_bell(socket)) && offer_channel(socket);
	case 3:
		detach(socket, 1 + random_below(KEY_COUNT));
		return true;
	case 4:
		return send_files(socket, &dump, sizeof(dump), -1, 0);
	case 5:
		return send_sync(socket, random_below(2) ? PISTE_MESSAGE_SYNC : PISTE_MESSAGE_SYNCED,
		                 random_number() >> random_below(64));
	case 6:
		return send_senseless(socket);
	case 7:
	case 8:
		return send_filter(socket) && send_enable_or_disable(socket);
	default:
		return send_enable_or_disable(socket);
	}
}

static void read_answers(int socket)
{
	static union {
		struct piste_message_hello hello;
		uint8_t bytes[PISTE_MESSAGE_BYTES_MAX];
	} answer;
	uint32_t type;

	while ((type = receive(socket, &answer, sizeof(answer), 0)) != 0) {
		refused += type == PISTE_MESSAGE_REFUSED;
		if (type == PISTE_MESSAGE_HELLO)
			attached += answer.hello.attached_count;
	}
}

/* Until the last round, or the end of the time. */
static int be_hostile(unsigned long rounds, time_t end)
{
	struct timeval timeout = {1, 0};

	say("listening");
	while (rounds > 0 && time(NULL) < end) {
		int listener = listen_for_programs(), socket;
		struct pollfd waiting = {listener, POLLIN, 0};
		bool alive;

		change_state_page();
		alive = poll(&waiting, 1, 1000) > 0;
		socket = alive ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
		rounds -= alive;
		setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
		for (int message = 0; alive && message < 400; message++) {
			alive = send_something(socket);
			scribble();
			read_answers(socket);
		}
		close(socket);
		close(listener);
	}
	printf("%lu attached, %lu refused\n", attached, refused);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "refusals") == 0)
		return check_refusals();
	if (argc != 4)
		return 2;
	state = strtoull(argv[1], NULL, 10);
	if (strcmp(argv[2], "seconds") == 0)
		return be_hostile(ULONG_MAX, time(NULL) + strtol(argv[3], NULL, 10));
	return be_hostile(strtoul(argv[3], NULL, 10), LONG_MAX);
}
