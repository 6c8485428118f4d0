// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules and tracked threads on the real kernel: what it is told, and what it then records. Needs root and tracefs.

mod apply;
mod filters;
mod model;
#[path = "../real/mod.rs"]
mod real;
mod recorder;
mod threads;
