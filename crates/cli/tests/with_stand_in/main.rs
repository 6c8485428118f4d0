// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command with a stand-in for pisted: what is its own work is tested without recording anything.

mod record;
mod stand_in;
mod start;
