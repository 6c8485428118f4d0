/* SPDX-License-Identifier: MIT */
/*
 * A program asks for a snapshot of the flight recorders, with what led up to this moment:
 *
 *     if (latency_ns > LIMIT_NS)
 *             piste_snapshot("slow request");
 *
 * It records the event piste:snapshot. A snapshot is taken where somebody wants one, as with any event:
 *
 *     piste record --snapshot-on piste:snapshot -- ./app
 *     piste add-trigger -e piste:snapshot --snapshot SESSION
 *
 * Elsewhere it does nothing. Cost: that of an event. The program does not wait: the snapshot is taken some milliseconds later, while it goes on.
 */
#ifndef PISTE_SNAPSHOT_H
#define PISTE_SNAPSHOT_H

#include "tracepoint.h"

PISTE_EVENT_LEVEL(piste, snapshot, NOTICE, (const char *, why))

/* Asks for a snapshot. `why` is text for people, and is copied. Safe in any thread and in signal handlers. */
static inline void piste_snapshot(const char *why)
{
	piste(piste, snapshot, why);
}

#endif
