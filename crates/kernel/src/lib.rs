// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel domain: what a Linux kernel tells of itself through tracefs, read as raw ring-buffer pages and written as CTF.
//!
//! No module is needed: every kernel since 5.10 with tracefs will do, and what one lacks is named ([`doctor`]).
//!
//! ```text
//!   spec        what a channel is to record              --apply-->  tracefs instance (events, filters, triggers)
//!                                                                        |
//!   ring        per-CPU sub-buffers, as the kernel wrote them   <--------+
//!     | page
//!   convert     records by the formats of the running kernel  -->  CTF packets in the layout that viewers know
//! ```
//!
//! - [`spec`]: the words in which sessions say what they want; start here.
//! - [`tracefs`], [`answer`]: whether the kernel can be traced here; [`owner`], [`instance`]: whose rings there are, and their settings;
//!   [`page_ring`], [`ring`], [`shared_buffer`], [`page`]: what is in them.
//! - [`probe`]: places in programs and the kernel that are made into events.
//! - [`convert`], [`layout`]: events of the trace, made of records.
//! - [`catalog`], [`format`](mod@format), [`syscalls`]: the events that the kernel has, and what their records are.
//!   [`list`], [`help`]: the same for people.
//! - [`programs`]: which threads ran 32-bit programs, and when.
//! - [`state_dump`]: what is there when a trace begins.
//! - [`resolve`], [`pattern`], [`filter`]: which events a rule means. [`selection`], [`tracked`]: what an instance is made to record.
//! - [`doctor`]: what the machine lacks.

pub mod answer;
pub mod catalog;
pub mod convert;
pub mod cpu_stats;
pub mod doctor;
pub mod filled_ring;
pub mod filter;
pub mod format;
pub mod help;
pub mod instance;
mod instance_name;
pub mod layout;
pub mod list;
pub mod losses;
pub mod owner;
pub mod page;
pub mod page_ring;
pub mod pattern;
mod plan;
mod print;
pub mod probe;
pub mod proc;
pub mod programs;
pub mod resolve;
pub mod ring;
pub mod selection;
mod shapes;
pub mod shared_buffer;
pub mod spec;
mod stacks;
pub mod state_dump;
pub mod tracefs;
pub mod tracked;
mod turn_off;
