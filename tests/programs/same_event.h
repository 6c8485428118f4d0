/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A declaration that two files of a program and a library include. */
#ifndef SAME_EVENT_H
#define SAME_EVENT_H

#include <piste/tracepoint.h>

PISTE_EVENT_LEVEL(same, event, NOTICE, (const char *, file))

void record_in_another_file(void);
void record_in_a_library(void);

#endif
