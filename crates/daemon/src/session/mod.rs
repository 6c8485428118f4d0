// SPDX-License-Identifier: MIT OR Apache-2.0
//! What pisted knows and decides, without sockets, files or clocks: inputs go in, effects come out.
//!
//! - [`machine`]: the state with the programs of now, and the effects; start here;
//! - [`commands`], [`settings`]: what people ask;
//! - [`programs`], [`offers`]: what programs say, and what they are told;
//! - [`catching_up`]: news that reach many programs one after the other;
//! - [`choice`], [`tracking`]: which programs, threads and CPUs a session is about;
//! - [`process`]: what is known of a program's process;
//! - [`moves`]: programs that go over from one ring set to another;
//! - [`consumers`]: what the consumer says, and what a new one is told;
//! - [`kernel`], [`kernel_settings`], [`kernel_life`]: the same for the kernel's channels;
//! - [`rotation`]: how a trace becomes several;
//! - [`sessions`], [`tracing_session`], [`channel`], [`rules`]: what outlives a pisted, a fold over changes;
//! - [`triggers`]: what is done when an event matches;
//! - [`refusal`]: why something asked is not done;
//! - [`participants`]: who took part in a session.
//! - [`filter_notes`]: what became of its filters.

pub mod adding_contexts;
mod catching_up;
pub mod channel;
pub mod choice;
pub mod commands;
pub mod consumers;
pub mod filter_notes;
pub mod kernel;
pub mod kernel_life;
pub mod kernel_settings;
pub mod machine;
pub mod moves;
pub mod offers;
pub mod participants;
pub mod process;
pub mod programs;
pub mod refusal;
pub mod rotation;
pub mod rules;
pub mod sessions;
pub mod settings;
pub mod tracing_session;
pub mod tracking;
pub mod triggers;

pub use channel::ChannelSettings;
pub use commands::Starting;
pub use machine::{Effect, Host, Machine, Pending};
pub use process::{Process, ProcessFacts};
pub use refusal::Refusal;
pub use rotation::Chunk;
pub use sessions::{Change, ProgramId, Sessions};
pub use tracing_session::{Moment, Session, SessionIdentity, SessionState};

#[cfg(test)]
pub(crate) mod tests;
