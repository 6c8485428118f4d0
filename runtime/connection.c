/* SPDX-License-Identifier: MIT */
/*
 * One daemon: the messages of piste/abi/protocol.h. Runs on the runtime's thread only. A daemon that hangs holds nobody up but this
 * thread, and that for SEND_TIMEOUT_S: a message that it did not take leaves the connection stuck, and nothing more is sent over it.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SEND_TIMEOUT_S 1

/* One message at a time, in either direction; too large for the thread's stack. */
static _Alignas(8) uint8_t outgoing[PISTE_MESSAGE_BYTES_MAX];
static _Alignas(8) uint8_t incoming[PISTE_MESSAGE_BYTES_MAX];

static struct piste_message message_of(uint32_t type, size_t total_bytes)
{
	struct piste_message message = {PISTE_MESSAGE_MAGIC, type, (uint32_t)total_bytes, 0};

	return message;
}

static void forget_board(struct piste_connection *connection)
{
	if (connection->board >= 0)
		close(connection->board);
	connection->board = -1;
}

static void forget_filter(struct piste_connection *connection)
{
	connection->filter = NULL;
	connection->filter_refused = false;
}

static bool send_message(struct piste_connection *connection, const void *message, size_t bytes)
{
	ssize_t sent;

	do
		sent = send(connection->socket, message, bytes, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent == (ssize_t)bytes)
		return true;
	connection->stuck = sent < 0 && errno == EAGAIN;
	if (!connection->stuck)
		piste_connection_close(connection);
	return false;
}

static size_t read_small_file(const char *path, void *bytes, size_t capacity)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count = file < 0 ? 0 : read(file, bytes, capacity);

	if (file >= 0)
		close(file);
	return count < 0 ? 0 : (size_t)count;
}

/* 32 hex digits; anything else counts as none. */
static void read_record_id(uint8_t record_id[16])
{
	const char *text = piste_setting("PISTE_RECORD");

	if (!text || strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return;
	for (int index = 0; index < 16; index++) {
		int high = text[2 * index], low = text[2 * index + 1];

		record_id[index] = (uint8_t)((high > '9' ? high - 'a' + 10 : high - '0') << 4 |
		                             (low > '9' ? low - 'a' + 10 : low - '0'));
	}
}

static bool say_hello(struct piste_connection *connection, uint64_t instance_id)
{
	struct piste_message_hello *hello = (struct piste_message_hello *)outgoing;
	uint32_t *keys = (uint32_t *)(hello + 1), key_count;
	size_t bytes = sizeof(*hello), name_bytes;
	ssize_t path_bytes;
	sigset_t before;

	memset(hello, 0, sizeof(*hello));
	hello->version_minor = PISTE_ABI_MINOR;
	hello->struct_bytes = sizeof(*hello);
	hello->instance_id = instance_id;
	hello->vpid = getpid();
	hello->vppid = getppid();
	hello->pointer_bits = sizeof(void *) * CHAR_BIT;
	piste_thread_offsets_find(&hello->ring_index);
	name_bytes = read_small_file("/proc/self/comm", hello->process_name, sizeof(hello->process_name) - 1);
	if (name_bytes && hello->process_name[name_bytes - 1] == '\n')
		hello->process_name[name_bytes - 1] = 0;
	read_record_id(hello->record_id);
	piste_lock(&before);
	key_count = piste_channel_keys(connection->daemon, keys);
	connection->abi_major = piste_modules_abi_major();
	piste_unlock(&before);
	hello->version_major = (uint16_t)connection->abi_major;
	hello->attached_count = (uint16_t)key_count;
	bytes += key_count * sizeof(keys[0]);
	path_bytes = readlink("/proc/self/exe", (char *)outgoing + bytes, PATH_MAX);
	hello->path_bytes = path_bytes < 0 ? 0 : (uint32_t)path_bytes;
	bytes += hello->path_bytes;
	hello->message = message_of(PISTE_MESSAGE_HELLO, bytes);
	return send_message(connection, hello, bytes);
}

bool piste_connection_open(struct piste_connection *connection, uint32_t daemon, uint64_t instance_id)
{
	struct timeval timeout = {SEND_TIMEOUT_S, 0};
	struct sockaddr_un address = {AF_UNIX, {0}};

	connection->daemon = daemon;
	connection->sent_module = 0;
	connection->synced_module = 0;
	errno = 0;
	piste_place_socket(daemon, address.sun_path);
	if (!address.sun_path[0])
		return false;
	connection->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connection->socket < 0)
		return false;
	/* Also bounds connect(), which waits while the queue of a daemon that hangs is full. */
	setsockopt(connection->socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(connection->socket, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int refused = errno;

		piste_connection_close(connection);
		errno = refused;
		return false;
	}
	return say_hello(connection, instance_id);
}

void piste_connection_close(struct piste_connection *connection)
{
	if (connection->socket >= 0)
		close(connection->socket);
	connection->socket = -1;
	connection->stuck = false;
	forget_board(connection);
	forget_filter(connection);
}

/* Fills `outgoing` with descriptions of the module's events from `*event_index` on, as many as fit. */
static size_t describe_events(struct piste_module *module, uint32_t *event_index)
{
	struct piste_message_events *events = (struct piste_message_events *)outgoing;
	size_t bytes = sizeof(*events), count = 0;

	for (; *event_index < piste_module_event_count(module); (*event_index)++) {
		struct piste_event *event = piste_module_event(module, *event_index);
		size_t described;

		if (!event)
			continue;
		described = piste_describe(event, *event_index, outgoing + bytes, sizeof(outgoing) - bytes);
		if (described == 0 && count > 0)
			break;
		if (described == 0)
			continue; /* Larger than the contract allows: the event cannot be enabled. */
		bytes += described;
		count++;
	}
	events->message = message_of(PISTE_MESSAGE_EVENTS, bytes);
	events->module_id = module->id;
	events->event_count = (uint32_t)count;
	return bytes;
}

/* Sends the first module after the last one sent. The lock is given up before each send, so the module is looked up again. */
static bool send_next_module(struct piste_connection *connection, bool *more)
{
	uint32_t event_index = 0, module_id = 0;

	*more = true;
	do {
		struct piste_module *module;
		size_t bytes = 0;
		sigset_t before;

		piste_lock(&before);
		module = module_id ? piste_module_find(module_id) : piste_modules_after(connection->sent_module);
		if (module) {
			module_id = module->id;
			bytes = describe_events(module, &event_index);
			if (event_index >= piste_module_event_count(module))
				connection->sent_module = module_id;
		}
		piste_unlock(&before);
		if (!module) {
			*more = module_id != 0;
			connection->sent_module = module_id ? module_id : connection->sent_module;
			return true;
		}
		if (!send_message(connection, outgoing, bytes))
			return false;
	} while (connection->sent_module < module_id);
	return true;
}

static bool send_sync(struct piste_connection *connection, uint32_t type, uint64_t token)
{
	struct piste_message_sync sync = {message_of(type, sizeof(sync)), token};

	return send_message(connection, &sync, sizeof(sync));
}

bool piste_connection_announce(struct piste_connection *connection)
{
	uint32_t before = connection->sent_module;
	bool more;

	do {
		if (!send_next_module(connection, &more))
			return false;
	} while (more);
	return connection->sent_module == before || send_sync(connection, PISTE_MESSAGE_SYNC, connection->sent_module);
}

bool piste_connection_module_gone(struct piste_connection *connection, uint32_t module_id)
{
	struct piste_message_module_gone gone = {message_of(PISTE_MESSAGE_MODULE_GONE, sizeof(gone)), module_id, 0};

	return send_message(connection, &gone, sizeof(gone));
}

bool piste_connection_late(struct piste_connection *connection)
{
	struct piste_message late = message_of(PISTE_MESSAGE_LATE, sizeof(late));

	return send_message(connection, &late, sizeof(late));
}

static bool attach(struct piste_connection *connection, int memory)
{
	const struct piste_message_channel *channel = (const struct piste_message_channel *)incoming;
	struct piste_message_refused refused = {message_of(PISTE_MESSAGE_REFUSED, sizeof(refused)), channel->key, 0};
	sigset_t before;

	piste_lock(&before);
	refused.reason =
	        piste_channel_attach(connection->daemon, channel->key, channel->replaces,
	                             (struct piste_channel_files){memory, connection->board, connection->bell_index});
	piste_unlock(&before);
	forget_board(connection);
	return refused.reason == 0 || send_message(connection, &refused, sizeof(refused));
}

static void keep_filter(struct piste_connection *connection, size_t bytes)
{
	const struct piste_message_filter *filter = (const struct piste_message_filter *)incoming;
	sigset_t before;

	piste_lock(&before);
	connection->filter = filter->filter_bytes <= bytes - sizeof(*filter)
	                             ? piste_filter_keep(filter + 1, filter->filter_bytes)
	                             : NULL;
	piste_unlock(&before);
	connection->filter_refused = !connection->filter;
}

static bool enable(struct piste_connection *connection, size_t bytes, bool on)
{
	const struct piste_message_enable *enable = (const struct piste_message_enable *)incoming;
	const struct piste_enabled_event *events = (const struct piste_enabled_event *)(enable + 1);
	struct piste_message_refused refused = {message_of(PISTE_MESSAGE_REFUSED, sizeof(refused)), enable->key, 0};
	uint32_t slot;
	sigset_t before;

	if (enable->event_count > (bytes - sizeof(*enable)) / sizeof(*events))
		return true;
	if (on && connection->filter_refused)
		refused.reason = PISTE_REFUSED_FILTER;
	piste_lock(&before);
	slot = piste_channel_slot(connection->daemon, enable->key);
	for (uint32_t index = 0; slot < PISTE_CHANNEL_COUNT_MAX && index < enable->event_count; index++) {
		struct piste_module *module = piste_module_find(events[index].module_id);
		struct piste_event *event = module ? piste_module_event(module, events[index].event_index) : NULL;

		if (event && (!on || connection->filter_refused))
			piste_event_disable(event, slot);
		else if (event && !piste_event_enable(event, slot, piste_channel_at(slot), events[index].event_id,
		                                      connection->filter))
			refused.reason = PISTE_REFUSED_MAPPING;
	}
	piste_unlock(&before);
	if (on)
		forget_filter(connection);
	return refused.reason == 0 || send_message(connection, &refused, sizeof(refused));
}

static void statedump(struct piste_connection *connection)
{
	uint32_t slot = piste_channel_slot(connection->daemon, ((const struct piste_message_channel *)incoming)->key);

	/* Only this thread attaches and detaches, so the slot stays what it is without the lock. */
	if (slot < PISTE_CHANNEL_COUNT_MAX)
		piste_statedump(slot);
}

static void detach(struct piste_connection *connection)
{
	sigset_t before;

	piste_lock(&before);
	piste_channel_detach(connection->daemon, ((const struct piste_message_channel *)incoming)->key);
	piste_unlock(&before);
}

/* Keeps the descriptor, which is the caller's, for the next channel. */
static void keep_board(struct piste_connection *connection, int board)
{
	forget_board(connection);
	connection->board = fcntl(board, F_DUPFD_CLOEXEC, 0);
	connection->bell_index = ((const struct piste_message_bell *)incoming)->bell_index;
}

static bool obey(struct piste_connection *connection, size_t bytes, int memory)
{
	const struct piste_message *message = (const struct piste_message *)incoming;
	const struct piste_message_sync *sync = (const struct piste_message_sync *)incoming;

	switch (message->type) {
	case PISTE_MESSAGE_CHANNEL:
		return bytes < sizeof(struct piste_message_channel) || memory < 0 || attach(connection, memory);
	case PISTE_MESSAGE_BELL:
		if (bytes >= sizeof(struct piste_message_bell) && memory >= 0)
			keep_board(connection, memory);
		return true;
	case PISTE_MESSAGE_CHANNEL_GONE:
		if (bytes >= sizeof(struct piste_message_channel))
			detach(connection);
		return true;
	case PISTE_MESSAGE_FILTER:
		if (bytes >= sizeof(struct piste_message_filter))
			keep_filter(connection, bytes);
		return true;
	case PISTE_MESSAGE_ENABLE:
	case PISTE_MESSAGE_DISABLE:
		return bytes < sizeof(struct piste_message_enable) ||
		       enable(connection, bytes, message->type == PISTE_MESSAGE_ENABLE);
	case PISTE_MESSAGE_STATEDUMP:
		if (bytes >= sizeof(struct piste_message_channel))
			statedump(connection);
		return true;
	case PISTE_MESSAGE_SYNC:
		return bytes < sizeof(*sync) || send_sync(connection, PISTE_MESSAGE_SYNCED, sync->token);
	case PISTE_MESSAGE_SYNCED:
		if (bytes >= sizeof(*sync))
			connection->synced_module = (uint32_t)sync->token;
		return true;
	default:
		return true; /* Of a later version. */
	}
}

/* Takes the descriptor that came with a message: -1 unless it was one. The padded room for one has room for more, and none that
 * came stays behind. */
static int take_descriptor(struct msghdr *datagram)
{
	struct cmsghdr *rights = CMSG_FIRSTHDR(datagram);
	int files[CMSG_SPACE(sizeof(int)) / sizeof(int)];
	size_t count;

	if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS)
		return -1;
	count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(files[0]);
	memcpy(files, CMSG_DATA(rights), count * sizeof(files[0]));
	if (count == 1)
		return files[0];
	for (size_t index = 0; index < count; index++)
		close(files[index]);
	return -1;
}

bool piste_connection_receive(struct piste_connection *connection)
{
	const struct piste_message *message = (const struct piste_message *)incoming;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {incoming, sizeof(incoming)};
	struct msghdr datagram = {0};
	int memory = -1;
	ssize_t bytes;
	bool alive;

	datagram.msg_iov = &part;
	datagram.msg_iovlen = 1;
	datagram.msg_control = control;
	datagram.msg_controllen = sizeof(control);
	do
		bytes = recvmsg(connection->socket, &datagram, MSG_CMSG_CLOEXEC);
	while (bytes < 0 && errno == EINTR);
	if (bytes >= 0)
		memory = take_descriptor(&datagram);
	alive = bytes >= (ssize_t)sizeof(*message) && message->magic == PISTE_MESSAGE_MAGIC &&
	        message->total_bytes == (uint32_t)bytes;
	if (alive)
		alive = obey(connection, (size_t)bytes, memory);
	else
		piste_connection_close(connection);
	if (memory >= 0)
		close(memory);
	return alive;
}
