// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who wants to know what the model finds out. Everything is told when it has ended, in about the order of the ends.

use super::System;
use super::file_calls::FileCall;
use super::occurrence::Occurrence;
use super::requests::Request;
use super::state::{Call, Delay, Interruption, Slice, ThreadId};
use crate::facts::Fact;

/// Listens to a model. What is not implemented is not listened to.
#[expect(unused_variables, reason = "the names are for those who implement it")]
pub trait Listen {
    /// What comes after the part of time that is told matters, too: who ends a wait that lasts beyond it.
    fn looks_ahead(&self) -> bool {
        false
    }
    /// Where threads were in their programs when they began to wait matters, too.
    fn wants_user_stacks(&self) -> bool {
        false
    }
    /// Which files calls are about matters, too.
    fn wants_files(&self) -> bool {
        true
    }
    /// An event happened, on a thread if that is known, before it changes anything.
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {}
    /// A thread did one thing for a time. A thread's slices come in their order.
    fn slice(&mut self, system: &System, slice: &Slice) {}
    /// A system call has ended. Those whose entry is not in the trace, or that a gap may have torn, are not told.
    fn call(&mut self, system: &System, call: &Call) {}
    /// A system call that has to do with a file has ended. It is told before it is told as a call.
    fn file_call(&mut self, system: &System, call: &FileCall) {}
    /// A device has done what it was asked for; or that is not in the trace, and will not be.
    fn request(&mut self, system: &System, request: &Request) {}
    /// Something happened that changes no state.
    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {}
    /// An interrupt has ended.
    fn interruption(&mut self, system: &System, interruption: &Interruption) {}
    /// A thread that was woken, or has begun, runs.
    fn delay(&mut self, system: &System, delay: &Delay) {}
    /// A thread began.
    fn born(&mut self, system: &System, thread: ThreadId, parent: Option<ThreadId>, ns: i64) {}
    /// A process has become another program, whose file is named.
    fn executed(&mut self, system: &System, thread: ThreadId, file: &[u8], ns: i64) {}
    /// A thread has ended.
    fn died(&mut self, system: &System, thread: ThreadId, ns: i64) {}
}

/// Listens to nothing.
pub struct Nobody;

impl Listen for Nobody {}
