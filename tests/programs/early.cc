// SPDX-License-Identifier: MIT OR Apache-2.0
// Records before main, in its first line, and after it.
#include <piste/tracepoint.h>

PISTE_EVENT(early, constructor)
PISTE_EVENT(early, object)
PISTE_EVENT(early, first_line)
PISTE_EVENT(late, object)
PISTE_EVENT(late, destructor)

__attribute__((constructor)) static void construct()
{
	piste(early, constructor);
}

__attribute__((destructor)) static void destruct()
{
	piste(late, destructor);
}

static struct Object {
	Object()
	{
		piste(early, object);
	}
	~Object()
	{
		piste(late, object);
	}
} object;

int main()
{
	piste(early, first_line);
	return 0;
}
