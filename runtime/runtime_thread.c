/* SPDX-License-Identifier: MIT */
/*
 * The one thread of the runtime: it registers the program with the daemons that are there, obeys them, and waits for those that are not.
 *
 * It has a descriptor table of its own, so that the program's descriptors are as if untraced and nothing that the program closes is
 * ours. It blocks all signals; other threads wake it by a futex while it waits for daemons, and by a directed signal that it reads
 * from a signalfd while it waits for messages.
 *
 * Waiting for a daemon costs nothing: FUTEX_WAIT on the state page of each daemon, which a starting pisted changes. The page is
 * never loaded from, because whoever owns it may truncate it: the kernel compares, and read() tells the generation. Whoever owns it
 * may also remove it, as logind does with the files of a user who logs out, and put anything in its place: a page that is not root's
 * is looked for again now and then.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REGISTER_TIMEOUT_MS_DEFAULT 3000
#define WAKE_SIGNAL                 SIGURG
#define STACK_BYTES                 (256 * 1024)

/* While a daemon is connected and another one is not, that one's state page is looked at this often. */
#define LOOK_AGAIN_MS 1000

/* A page that may go is looked for this often: a few microseconds of work each time. */
#define LOOK_FOR_PAGE_MS 10000

/* futex_waitv(2), Linux 5.16; libc headers may be older. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
struct waiter {
	uint64_t value;
	uint64_t address;
	uint32_t flags;
	uint32_t reserved;
};
#define WAITER_SHARED  2u /* FUTEX_32 */
#define WAITER_PRIVATE (2u | 128u)

/* One daemon that may come. */
struct place {
	struct piste_connection connection;
	int state_file;
	uint32_t *state_page; /* For the kernel's eyes only. NULL: cannot be waited for. */
	bool page_stays;      /* Only root can remove it, and then wakes who waits. */
	uint32_t generation;  /* Of the last attempt to connect. */
	bool tried;
	bool late; /* Its daemon is to be told that somebody did not wait for it any longer. */
};

static struct place places[PISTE_DAEMON_COUNT];

/* Set under the lock. */
static bool thread_runs;
static bool fork_handled;
static uint64_t instance_id;

/* Modules that went since the thread looked last. When more went than fit, the thread registers anew. */
#define GONE_MODULES_MAX 16
static uint32_t gone_modules[GONE_MODULES_MAX];
static uint32_t gone_module_count;

/* How long threads waited for daemons in vain since one answered last, here and before forks: a daemon that hangs holds the program up
 * once. */
static uint64_t waited_ns;
static bool gave_up; /* A thread did not wait any longer. */

static uint32_t thread_id;  /* Of the thread, once it can be signalled. */
static uint32_t wake_futex; /* Grows when the thread should look around. */
static uint32_t
        synced_module; /* Newest module that every connected daemon has answered for. Registering threads wait on it. */

static long futex(uint32_t *address, int operation, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, address, operation, value, timeout, NULL, 0);
}

/* ---- Waking and waiting, on the program's threads ---- */

static void wake_thread(void)
{
	uint32_t thread;

	__atomic_fetch_add(&wake_futex, 1, __ATOMIC_RELEASE);
	futex(&wake_futex, FUTEX_WAKE_PRIVATE, 1, NULL);
	thread = __atomic_load_n(&thread_id, __ATOMIC_ACQUIRE);
	if (thread)
		syscall(SYS_tgkill, getpid(), thread, WAKE_SIGNAL);
}

static uint64_t register_timeout_ns(void)
{
	const char *setting = piste_setting("PISTE_REGISTER_TIMEOUT");
	long milliseconds = REGISTER_TIMEOUT_MS_DEFAULT;

	if (setting) {
		char *end;
		long value = strtol(setting, &end, 10);

		if (*end == 0 && value >= 0)
			milliseconds = value;
	}
	return (uint64_t)milliseconds * 1000000u;
}

static void wait_until_synced(uint32_t module_id)
{
	uint64_t begin_ns = piste_clock_monotonic(), timeout_ns = register_timeout_ns();
	uint64_t waited = __atomic_load_n(&waited_ns, __ATOMIC_RELAXED);
	uint64_t deadline_ns = begin_ns + (waited < timeout_ns ? timeout_ns - waited : 0);

	for (;;) {
		uint32_t synced = __atomic_load_n(&synced_module, __ATOMIC_ACQUIRE);
		uint64_t now_ns = piste_clock_monotonic();
		struct timespec left;

		if (synced >= module_id) {
			__atomic_store_n(&waited_ns, 0, __ATOMIC_RELAXED);
			return;
		}
		if (now_ns >= deadline_ns) {
			__atomic_fetch_add(&waited_ns, now_ns - begin_ns, __ATOMIC_RELAXED);
			__atomic_store_n(&gave_up, true, __ATOMIC_RELAXED);
			wake_thread();
			return;
		}
		left.tv_sec = (time_t)((deadline_ns - now_ns) / 1000000000u);
		left.tv_nsec = (long)((deadline_ns - now_ns) % 1000000000u);
		futex(&synced_module, FUTEX_WAIT_PRIVATE, synced, &left);
	}
}

static void set_synced(uint32_t module_id)
{
	uint32_t before = __atomic_exchange_n(&synced_module, module_id, __ATOMIC_RELEASE);

	/* Whoever gave up has not seen that the daemon answers again. */
	if (before < module_id)
		__atomic_store_n(&waited_ns, 0, __ATOMIC_RELAXED);
	if (before != module_id)
		futex(&synced_module, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

/* ---- The thread ---- */

/* Takes a descriptor table of its own, with nothing in it. On a kernel without close_range (before 5.9) it shares the program's. */
static void leave_descriptor_table(void)
{
	syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE);
}

/* Opens the state page of a daemon, made here when no daemon ever was. */
static void open_state(struct place *place, uint32_t daemon)
{
	char path[PISTE_PATH_BYTES];
	struct stat status;
	void *page;

	piste_place_state(daemon, path);
	place->state_file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (place->state_file < 0 && errno == ENOENT) {
		place->state_file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
		/* Whatever the umask is: programs of all users wait on root's. */
		if (place->state_file >= 0 &&
		    (fchmod(place->state_file, 0644) != 0 || ftruncate(place->state_file, sizeof(uint32_t)) != 0)) {
			close(place->state_file);
			place->state_file = -1;
		}
		if (place->state_file < 0 && errno == EEXIST)
			place->state_file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	if (place->state_file < 0)
		return;
	page = mmap(NULL, sizeof(uint32_t), PROT_READ, MAP_SHARED, place->state_file, 0);
	if (page == MAP_FAILED)
		return;
	place->state_page = page;
	place->page_stays = fstat(place->state_file, &status) == 0 && status.st_uid == 0 && status.st_nlink == 1;
}

static void close_state(struct place *place)
{
	if (place->state_page)
		munmap(place->state_page, sizeof(uint32_t));
	if (place->state_file >= 0)
		close(place->state_file);
	place->state_page = NULL;
	place->state_file = -1;
	place->page_stays = false;
}

/* A pisted that finds the page of somebody else, a program's for example, puts its own in the place and wakes who waits. Where there is
 * no page, or none that can be opened, a pisted cannot say that it starts: each look tries to connect. */
static void follow_state(struct place *place, uint32_t daemon)
{
	char path[PISTE_PATH_BYTES];
	struct stat here, there;

	piste_place_state(daemon, path);
	if (place->state_file >= 0 && lstat(path, &there) == 0 && fstat(place->state_file, &here) == 0 &&
	    here.st_ino == there.st_ino && here.st_dev == there.st_dev)
		return;
	close_state(place);
	open_state(place, daemon);
	place->tried = false;
}

static uint32_t read_generation(const struct place *place)
{
	uint32_t generation = 0;

	if (place->state_file < 0 || pread(place->state_file, &generation, sizeof(generation), 0) != sizeof(generation))
		return 0;
	return generation;
}

static bool is_usable(const struct piste_connection *connection)
{
	return connection->socket >= 0 && !connection->stuck;
}

/* Its daemon did not take a connection, or a message, in time. */
static bool is_busy(const struct place *place)
{
	return place->connection.stuck || !place->tried;
}

static void connect_where_possible(void)
{
	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++) {
		struct place *place = &places[daemon];
		uint32_t generation;

		if (place->connection.socket >= 0)
			continue;
		follow_state(place, daemon);
		generation = read_generation(place);
		if (place->tried && generation == place->generation)
			continue;
		place->generation = generation;
		/* One that is too busy to be connected to will not say when it no longer is. */
		place->tried = piste_connection_open(&place->connection, daemon, instance_id) || errno != EAGAIN;
	}
}

/* Tells daemons that did not answer in time, once they can be told. */
static void tell_late(void)
{
	bool late = __atomic_exchange_n(&gave_up, false, __ATOMIC_RELAXED);

	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++) {
		struct place *place = &places[daemon];
		struct piste_connection *connection = &place->connection;

		place->late |= late && piste_place_inhabited(daemon) &&
		               (!is_usable(connection) || connection->synced_module != connection->sent_module);
		if (place->late && is_usable(connection))
			place->late = !piste_connection_late(connection);
	}
}

/* Tells daemons what came and went, and registering threads how far daemons have answered. */
static void announce(void)
{
	uint32_t gone[GONE_MODULES_MAX], gone_count, newest, abi_major;
	sigset_t before;

	piste_lock(&before);
	newest = piste_modules_newest();
	abi_major = piste_modules_abi_major();
	gone_count = gone_module_count;
	memcpy(gone, gone_modules, sizeof(gone_modules));
	gone_module_count = 0;
	piste_unlock(&before);
	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++) {
		struct place *place = &places[daemon];
		struct piste_connection *connection = &place->connection;

		if ((gone_count > GONE_MODULES_MAX || connection->abi_major != abi_major) && is_usable(connection)) {
			piste_connection_close(connection);
			piste_connection_open(connection, daemon, instance_id);
		}
		for (uint32_t index = 0; gone_count <= GONE_MODULES_MAX && index < gone_count && is_usable(connection);
		     index++)
			piste_connection_module_gone(connection, gone[index]);
		if (is_usable(connection))
			piste_connection_announce(connection);
		/* A module without events to send has no answer to wait for; a daemon that is busy will be asked again. */
		if (is_usable(connection) ? connection->synced_module == connection->sent_module : !is_busy(place))
			continue;
		if (connection->synced_module < newest)
			newest = connection->synced_module;
	}
	set_synced(newest);
}

static bool any_connected(void)
{
	bool connected = false;

	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++)
		connected |= places[daemon].connection.socket >= 0;
	return connected;
}

static void wait_for_messages(int wake_file)
{
	struct pollfd files[1 + PISTE_DAEMON_COUNT] = {{wake_file, POLLIN, 0}};
	struct signalfd_siginfo wake;
	uint32_t count = piste_places_count();
	int timeout_ms = -1;

	for (uint32_t daemon = 0; daemon < count; daemon++) {
		files[1 + daemon].fd = places[daemon].connection.socket;
		files[1 + daemon].events = places[daemon].connection.stuck ? POLLOUT : POLLIN;
		if (places[daemon].connection.socket < 0)
			timeout_ms = LOOK_AGAIN_MS;
	}
	if (poll(files, 1 + count, timeout_ms) <= 0)
		return;
	if (files[0].revents)
		while (read(wake_file, &wake, sizeof(wake)) > 0)
			;
	for (uint32_t daemon = 0; daemon < count; daemon++) {
		struct place *place = &places[daemon];

		if (!files[1 + daemon].revents)
			continue;
		/* A connection that ends is tried again when a daemon starts, not before: one that refuses us would do so again. */
		if (!place->connection.stuck) {
			piste_connection_receive(&place->connection);
			continue;
		}
		piste_connection_close(&place->connection);
		place->tried = false;
	}
}

/* Without futex_waitv the first daemon is waited for, and the others are looked at now and then. */
static void wait_for_daemons(uint32_t seen_wake)
{
	struct timespec look_again = {LOOK_AGAIN_MS / 1000, 0}, until;
	bool busy = false, pages_stay = true;
	struct waiter waiters[1 + PISTE_DAEMON_COUNT] = {
	        {seen_wake, (uint64_t)(uintptr_t)&wake_futex, WAITER_PRIVATE, 0}};
	uint32_t count = 1;

	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++) {
		struct place *place = &places[daemon];

		busy |= is_busy(place);
		pages_stay &= place->page_stays;
		if (!place->state_page)
			continue;
		waiters[count].value = place->generation;
		waiters[count].address = (uint64_t)(uintptr_t)place->state_page;
		waiters[count++].flags = WAITER_SHARED;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (busy ? LOOK_AGAIN_MS : LOOK_FOR_PAGE_MS) / 1000;
	if (syscall(SYS_futex_waitv, waiters, count, 0, busy || !pages_stay ? &until : NULL, CLOCK_MONOTONIC) < 0 &&
	    errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
		futex(&wake_futex, FUTEX_WAIT_PRIVATE, seen_wake, &look_again);
}

static void *run(void *unused)
{
	sigset_t wake_signals;
	int wake_file;

	(void)unused;
	leave_descriptor_table();
	sigemptyset(&wake_signals);
	sigaddset(&wake_signals, WAKE_SIGNAL);
	wake_file = signalfd(-1, &wake_signals, SFD_NONBLOCK | SFD_CLOEXEC);
	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++) {
		places[daemon] = (struct place){.connection = {.socket = -1, .board = -1}, .state_file = -1};
		open_state(&places[daemon], daemon);
	}
	__atomic_store_n(&thread_id, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (;;) {
		uint32_t seen_wake = __atomic_load_n(&wake_futex, __ATOMIC_ACQUIRE);

		connect_where_possible();
		announce();
		tell_late();
		if (any_connected())
			wait_for_messages(wake_file);
		else
			wait_for_daemons(seen_wake);
	}
	return NULL;
}

/* With the lock held, which blocks all signals: the thread inherits that. */
static void start_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	piste_places_decide();
	if (piste_places_count() == 0)
		return;
	if (getrandom(&instance_id, sizeof(instance_id), GRND_NONBLOCK) != sizeof(instance_id))
		instance_id = piste_clock_monotonic() << 22 ^ (uint64_t)getpid();
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	/* A program with very much thread-local storage needs more stack than ours. */
	thread_runs = pthread_create(&thread, &attributes, run, NULL) == 0;
	if (!thread_runs) {
		pthread_attr_setstacksize(&attributes, 16 * STACK_BYTES);
		thread_runs = pthread_create(&thread, &attributes, run, NULL) == 0;
	}
	pthread_attr_destroy(&attributes);
}

/* ---- fork: the child is a program of its own ---- */

static void forked_in_child(void)
{
	uint32_t newest = piste_modules_newest();
	bool announced = thread_runs;

	for (uint32_t daemon = 0; daemon < PISTE_DAEMON_COUNT; daemon++)
		if (places[daemon].state_page)
			munmap(places[daemon].state_page, sizeof(uint32_t));
	memset(places, 0, sizeof(places));
	piste_channels_forget();
	piste_thread_forked();
	piste_contexts_forked();
	piste_counters_forked();
	thread_runs = false;
	thread_id = 0;
	synced_module = 0;
	gone_module_count = 0;
	gave_up = false;
	piste_unlock_after_fork();
	if (announced)
		piste_runtime_announce(newest);
}

/* ---- Entry ---- */

void piste_runtime_announce(uint32_t module_id)
{
	bool runs;
	sigset_t before;

	piste_lock(&before);
	if (!fork_handled) {
		fork_handled = true;
		pthread_atfork(piste_lock_over_fork, piste_unlock_after_fork, forked_in_child);
	}
	if (!thread_runs)
		start_thread();
	runs = thread_runs;
	piste_unlock(&before);
	wake_thread();
	/* Where no daemon is, there is nothing to wait for. */
	for (uint32_t daemon = 0; runs && daemon < piste_places_count(); daemon++)
		if (piste_place_inhabited(daemon)) {
			wait_until_synced(module_id);
			return;
		}
}

void piste_runtime_module_gone(uint32_t module_id)
{
	sigset_t before;
	bool runs;

	piste_lock(&before);
	runs = thread_runs;
	if (runs && gone_module_count < GONE_MODULES_MAX)
		gone_modules[gone_module_count] = module_id;
	if (runs && gone_module_count <= GONE_MODULES_MAX)
		gone_module_count++;
	piste_unlock(&before);
	if (runs)
		wake_thread();
}
