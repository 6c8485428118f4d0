// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: what files offer, which wishes are refused, and, on the running kernel as root, that what a program does is what is recorded.

mod places;
mod programs;
#[path = "../real/mod.rs"]
mod real;
mod recording;
mod refusals;
mod removal;
mod rig;
