// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command with a stand-in for pisted: what is its own work is tested without recording anything.

mod kernel;
mod record;
mod scene;
mod stand_in;
mod start;
mod triggers;
