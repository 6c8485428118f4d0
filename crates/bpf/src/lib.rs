// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF program that records system calls together with what their arguments point to.
//!
//! tracefs hands out the registers of a call only. A BPF program can read the memory that they point to at that moment, so where somebody wants
//! that, it records the calls itself, in the form in which tracefs does. It is `bpf/calls.bpf.c`, compiled when this crate is built.
//!
//! - [`Program`]: the loaded program, and its settings. What it records of each call is said in [`piste_syscalls::copies`].
//! - [`Ring`]: the records of a CPU.
//!
//! The program and its rings exist as long as a process has them, or they are kept in the file system of BPF: [`Program::keep`],
//! [`Program::kept`], [`remove`].

mod kept;
mod program;
mod ring;

pub use kept::{remove, remove_all};
pub use program::{Failure, Program, Settings, Switches, log};
pub use ring::{Ring, Sample};
