/* SPDX-License-Identifier: MIT */
/* Where daemons are, as piste/abi/protocol.h says: root's, and that of the program's user. */
#define _GNU_SOURCE
#include "runtime.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *piste_setting(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

/* Socket paths are short: nobody is in a longer folder. */
#define RUN_FOLDER_BYTES (PISTE_PATH_BYTES - (sizeof("/app.sock") - 1))

/* What was decided, for a process that may change its user and its environment later. */
static struct {
	uint32_t count;
	uid_t user;
	char run_folder[RUN_FOLDER_BYTES]; /* Empty: daemons are in their usual places. */
} decided;

/* Services have some without any sign of it: ambient ones change neither AT_SECURE nor PR_GET_DUMPABLE. */
static bool has_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, words) != 0 || (words[0].permitted | words[1].permitted) != 0;
}

/* A user's daemon learns what the program holds, so only a program that its user could also debug obeys it: none that has other
 * rights than its user, and none that had other rights before. */
static bool belongs_to_its_user(void)
{
	return !getauxval(AT_SECURE) && getuid() == geteuid() && prctl(PR_GET_DUMPABLE) == 1 && !has_capabilities();
}

void piste_places_decide(void)
{
	const char *run_folder = piste_setting("PISTE_RUNDIR");

	decided.user = getuid();
	if (run_folder)
		decided.count = strlen(run_folder) < RUN_FOLDER_BYTES;
	else
		decided.count = decided.user == 0 || !belongs_to_its_user() ? 1 : PISTE_DAEMON_COUNT;
	snprintf(decided.run_folder, sizeof(decided.run_folder), "%s", run_folder ? run_folder : "");
}

uint32_t piste_places_count(void)
{
	return decided.count;
}

void piste_place_socket(uint32_t daemon, char path[PISTE_PATH_BYTES])
{
	unsigned int user = daemon == 0 ? 0 : decided.user;
	struct stat status;

	if (decided.run_folder[0]) {
		snprintf(path, PISTE_PATH_BYTES, "%s/app.sock", decided.run_folder);
		return;
	}
	if (user == 0) {
		snprintf(path, PISTE_PATH_BYTES, "/run/piste/app.sock");
		return;
	}
	snprintf(path, PISTE_PATH_BYTES, "/run/user/%u", user);
	if (stat(path, &status) == 0) {
		snprintf(path, PISTE_PATH_BYTES, "/run/user/%u/piste/app.sock", user);
		return;
	}
	/* Anybody can make a folder in /tmp: only the user's own counts. */
	snprintf(path, PISTE_PATH_BYTES, "/tmp/piste-%u", user);
	if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == user)
		snprintf(path, PISTE_PATH_BYTES, "/tmp/piste-%u/app.sock", user);
	else
		path[0] = 0;
}

void piste_place_state(uint32_t daemon, char path[PISTE_PATH_BYTES])
{
	if (decided.run_folder[0])
		snprintf(path, PISTE_PATH_BYTES, "%s/state", decided.run_folder);
	else
		snprintf(path, PISTE_PATH_BYTES, "/dev/shm/piste-state-%u", daemon == 0 ? 0 : decided.user);
}

bool piste_place_inhabited(uint32_t daemon)
{
	char path[PISTE_PATH_BYTES];

	piste_place_socket(daemon, path);
	return path[0] && access(path, F_OK) == 0;
}
