// SPDX-License-Identifier: MIT OR Apache-2.0
/* paths PATH...: asks whether each of them exists, a system call each. */

#include <unistd.h>

int main(int argc, char **argv)
{
	for (int index = 1; index < argc; index++)
		access(argv[index], F_OK);
	return 0;
}
