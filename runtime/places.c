/* SPDX-License-Identifier: MIT */
/* Where daemons are, as abi/protocol.h says: root's, and that of the program's user. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *piste_setting(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

/* Root has one daemon; so has everybody in a run folder of their own. */
uint32_t piste_places_count(void)
{
	return piste_setting("PISTE_RUNDIR") || getuid() == 0 ? 1 : PISTE_DAEMON_COUNT;
}

void piste_place_socket(uint32_t daemon, char path[PISTE_PATH_BYTES])
{
	const char *run_folder = piste_setting("PISTE_RUNDIR");
	unsigned int user = daemon == 0 ? 0 : getuid();
	struct stat status;

	if (run_folder) {
		snprintf(path, PISTE_PATH_BYTES, "%s/app.sock", run_folder);
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
	const char *run_folder = piste_setting("PISTE_RUNDIR");

	if (run_folder)
		snprintf(path, PISTE_PATH_BYTES, "%s/state", run_folder);
	else
		snprintf(path, PISTE_PATH_BYTES, "/dev/shm/piste-state-%u", daemon == 0 ? 0 : getuid());
}

bool piste_place_inhabited(void)
{
	char path[PISTE_PATH_BYTES];

	for (uint32_t daemon = 0; daemon < piste_places_count(); daemon++) {
		piste_place_socket(daemon, path);
		if (path[0] && access(path, F_OK) == 0)
			return true;
	}
	return false;
}
