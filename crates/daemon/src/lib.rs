// SPDX-License-Identifier: MIT OR Apache-2.0
//! pisted: the control process and the consumer process, two roles of one executable.
//!
//! Control decides and hands over; the consumer writes traces. Both outlive the other's death. In reading order:
//!
//! - [`session`]: what control knows and decides, without I/O;
//! - [`description`], [`message`]: what programs say, from bytes to values;
//! - [`control`]: the loop that carries out what `session` decides, and everything it talks to;
//! - [`datagrams`], [`link`]: how programs, control and consumer talk;
//! - [`person`]: as whom files of traces are opened, and [`busy`]: since when;
//! - [`bell`]: how a thread that polls is woken;
//! - [`remains`]: what is left of a consumer that was killed while a disk hangs;
//! - [`consumer`]: reads the rings of programs and writes traces;
//! - [`kernel_consumer`]: the same for the rings of the kernel;
//! - [`fuzzing`]: what strangers can send, as functions that tests call.

pub mod bell;
pub mod busy;
pub mod consumer;
pub mod contexts;
pub mod control;
pub mod datagrams;
pub mod description;
pub mod fuzzing;
pub mod kernel_consumer;
pub mod link;
pub mod message;
pub mod person;
pub mod program_filter;
pub mod remains;
pub mod rings;
pub mod session;
pub mod shares;
#[cfg(test)]
mod simulation;
