// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small traces in folders: what is read, in which order, and what is found.
#![allow(unreachable_pub, reason = "parts of a test")]

mod conformance;
mod counting;
mod damage;
mod ends;
mod filters;
mod forms;
mod fuzzing;
mod growth;
mod keeping;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../../../ctf/tests/conformance/notation.rs"]
mod notation;
mod order;
mod random;
mod repeated;
mod selection;
mod symbols;
mod test_trace;
