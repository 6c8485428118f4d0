/* SPDX-License-Identifier: MIT */
/*
 * Definitions that all headers of the contract between a traced program, pisted and the consumer share.
 *
 * The headers of this folder hold data only: fixed-width integers in the machine's byte order; no pointers, `long`,
 * bit-fields or atomics. Memory that two processes share starts with a struct that has magic, version and size, and grows by
 * appending. Each struct is followed by its size assert. The Rust view (crates/abi) is generated from these files.
 *
 * Next: ring.h (the memory that events are written to), event.h (how an event is described), filter.h (which events are wanted),
 * protocol.h (the messages between a traced program and pisted).
 */
#ifndef PISTE_ABI_BASE_H
#define PISTE_ABI_BASE_H

#include <stdint.h>

/* One number for all these headers. A program and a daemon of different major versions refuse each other; a minor version
 * only appends, and each side reads no further than the size that the other one states. */
#define PISTE_ABI_MAJOR 4
#define PISTE_ABI_MINOR 0

#ifdef __cplusplus
#define PISTE_ABI_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "piste: the layout of " #type " changed")
#else
#define PISTE_ABI_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "piste: the layout of " #type " changed")
#endif

#endif
