/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that preload_libraries.c loads; alone, or needed by another one. */
int answer(void);

int answer(void)
{
	return 42;
}
