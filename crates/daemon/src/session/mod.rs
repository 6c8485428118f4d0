// SPDX-License-Identifier: MIT OR Apache-2.0
//! What pisted knows and decides, without sockets, files or clocks: inputs go in, effects come out.
//!
//! - [`rules`]: which events a channel records;
//! - [`sessions`]: what outlives a pisted, a fold over changes;
//! - [`machine`]: the state with the programs of now, and the effects;
//! - [`commands`]: what people ask;
//! - [`programs`]: what programs say, and what they are told;
//! - [`consumers`]: what the consumer says, and what a new one is told;
//! - [`refusal`]: why something asked is not done;
//! - [`participants`]: who took part in a session.

pub mod commands;
pub mod consumers;
pub mod machine;
pub mod participants;
pub mod programs;
pub mod refusal;
pub mod rules;
pub mod sessions;

pub use machine::{Effect, Host, Machine, Pending};
pub use refusal::Refusal;
pub use sessions::{Change, ChannelSettings, Moment, ProgramId, SessionIdentity, SessionState, Sessions};

#[cfg(test)]
mod tests;
