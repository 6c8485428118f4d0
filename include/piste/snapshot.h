/* SPDX-License-Identifier: MIT */
/*
 * Lets a program request a snapshot of the flight recorders, which contain the events that led up to this moment:
 *
 *     if (latency_ns > LIMIT_NS)
 *             piste_snapshot("slow request");
 *
 * It records the event piste:snapshot. A snapshot is taken only if one was requested for this event, as for any other event:
 *
 *     piste record --snapshot-on piste:snapshot -- ./app
 *     piste add-trigger -e piste:snapshot --snapshot SESSION
 *
 * Otherwise no snapshot is taken. Cost: that of an event. The program does not wait: the snapshot is taken some milliseconds later, while
 * the program continues.
 */
#ifndef PISTE_SNAPSHOT_H
#define PISTE_SNAPSHOT_H

#include "tracepoint.h"

PISTE_EVENT_LEVEL(piste, snapshot, NOTICE, (const char *, why))

/* Requests a snapshot. `why` is text for people, and is copied. Safe in any thread and in signal handlers. */
static inline void piste_snapshot(const char *why)
{
	piste(piste, snapshot, why);
}

#endif
