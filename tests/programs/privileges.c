/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * privileges keep           records one event
 * privileges drop UID       becomes that user for good; then it and a child each record one
 */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <piste/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

PISTE_EVENT(privileges, secret, (const char *, mode), (uint32_t, user), (uint32_t, effective_user))

static void record(const char *mode)
{
	piste(privileges, secret, mode, getuid(), geteuid());
}

/* What the program has beyond its user. */
static const char *rights(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];

	if (geteuid() != getuid())
		return "raised";
	if (getegid() != getgid())
		return "other group";
	return syscall(SYS_capget, &header, words) == 0 && words[0].effective ? "capable" : "usual";
}

static int drop(uid_t user)
{
	int status = 0;

	if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) {
		perror("privileges");
		return 1;
	}
	record("dropped");
	if (fork() == 0) {
		record("child of dropped");
		_exit(0);
	}
	wait(&status);
	return status != 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "drop") == 0)
		return drop((uid_t)strtoul(argv[2], NULL, 10));
	if (argc < 2 || strcmp(argv[1], "keep") != 0)
		return 2;
	record(rights());
	return 0;
}
