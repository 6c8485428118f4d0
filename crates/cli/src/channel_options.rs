// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a channel, the same for `record` and `enable-channel`; and those of the kernel's channel of a recording.

use clap::{Args, ValueEnum};
use piste_control::interface::{CallMemory, ChannelRequest, Domain, LossMode};

use crate::quantity::{self, Timeout};

/// How a channel keeps its events.
#[derive(Args)]
#[command(next_help_heading = "Channel options")]
pub(crate) struct ChannelOptions {
    /// Discard the newest events when a ring is full (except in snapshot sessions, this is the default); in snapshot sessions, snapshots then contain
    /// the first events of each program
    #[arg(long, group = "loss")]
    discard: bool,
    /// Overwrite the oldest events when a ring is full, as snapshot sessions do by default
    #[arg(long, group = "loss")]
    overwrite: bool,
    /// When a ring is full, let the program wait for space, at most TIMEOUT (100us, 500ms, 1s, forever), then discard the event; not for
    /// kernel channels
    #[arg(long, alias = "blocking-timeout", value_name = "TIMEOUT", group = "loss", value_parser = quantity::parse_timeout)]
    block: Option<Timeout>,
    /// Size of a sub-buffer, a power of two: 64K, 1M [default: 256K; for a kernel channel 64K]
    #[arg(long, value_name = "SIZE", value_parser = quantity::parse_size)]
    subbuf_size: Option<u64>,
    /// Number of sub-buffers in each ring, a power of two; any number for a kernel channel [default: 4; for a kernel channel 256]
    #[arg(long, value_name = "N")]
    num_subbuf: Option<u32>,
    /// Record these values with each event, in addition to its fields, or `none`; `piste add-context --list` lists them [default: vtid,cpu_id; for a
    /// kernel channel tid]
    #[arg(
        long = "context",
        value_name = "CONTEXT",
        value_delimiter = ',',
        conflicts_with = "no_default_contexts"
    )]
    contexts: Option<Vec<String>>,
    /// Record neither the thread ID nor the CPU with each event
    #[arg(long)]
    no_default_contexts: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryOptions,
}

/// What is recorded of the memory that arguments of system calls point to; the same for `record` and `enable-channel`.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Kernel options")]
pub(crate) struct MemoryOptions {
    /// Record the first N bytes of what system calls read and write, 0 to 4096 [default: 0]
    #[arg(long, value_name = "N")]
    strings: Option<u16>,
    /// Record the environment of programs that are executed
    #[arg(long)]
    environment: bool,
    /// Record pointer arguments of system calls only as numbers, without the file names, structures or socket addresses behind them
    #[arg(long, conflicts_with_all = ["strings", "environment"])]
    no_strings: bool,
}

impl MemoryOptions {
    fn apply(self, request: &mut ChannelRequest) {
        if self.strings.is_some() || self.environment {
            request.call_memory = Some(CallMemory {
                environment: self.environment,
                buffer_bytes: self.strings.unwrap_or(0).into(),
            });
        }
        request.addresses_only = self.no_strings.then_some(true);
    }
}

impl ChannelOptions {
    /// The request for a channel of that name.
    pub(crate) fn request(&self, domain: Domain, name: String) -> ChannelRequest {
        let (loss, block_timeout) = match (self.discard, self.overwrite, self.block) {
            (true, ..) => (Some(LossMode::discard), None),
            (_, true, _) => (Some(LossMode::overwrite), None),
            (_, _, Some(timeout)) => (Some(LossMode::block), Some(timeout)),
            _ => (None, None),
        };
        let mut request = ChannelRequest {
            name,
            domain: Some(domain),
            loss,
            block_timeout_us: match block_timeout {
                Some(Timeout::After(duration)) => i64::try_from(duration.as_micros()).ok(),
                Some(Timeout::Never) | None => None,
            },
            subbuf_bytes: self.subbuf_size.map(told_bytes),
            subbuf_count: self.num_subbuf.map(i64::from),
            contexts: self.contexts(),
            call_memory: None,
            addresses_only: None,
        };
        if request.domain == Some(Domain::kernel) {
            self.memory.apply(&mut request);
        }
        request
    }

    fn contexts(&self) -> Option<Vec<String>> {
        let Some(contexts) = &self.contexts else {
            return self.no_default_contexts.then(Vec::new);
        };
        let named = contexts.iter().filter(|context| *context != "none");
        Some(named.cloned().collect())
    }
}

/// The kernel's channel of a recording.
#[derive(Args)]
#[command(next_help_heading = "Kernel options")]
pub(crate) struct KernelRingOptions {
    /// Size of a sub-buffer in the kernel's rings, a power of two from 4K to 512K [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = quantity::parse_size)]
    kernel_subbuf_size: Option<u64>,
    /// Number of sub-buffers in each CPU's kernel ring [default: 256]
    #[arg(long, alias = "kernel-num-subbuf", value_name = "N")]
    kernel_subbuf_count: Option<u32>,
    /// Discard the newest events when a kernel ring is full (the default), or overwrite the oldest
    #[arg(long, value_name = "MODE")]
    kernel_loss: Option<KernelLoss>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KernelLoss {
    Discard,
    Overwrite,
}

impl KernelRingOptions {
    /// The request for a kernel channel of that name.
    pub(crate) fn request(&self, name: String, memory: MemoryOptions) -> ChannelRequest {
        let mut request = ChannelRequest {
            name,
            domain: Some(Domain::kernel),
            loss: self.kernel_loss.map(|loss| match loss {
                KernelLoss::Discard => LossMode::discard,
                KernelLoss::Overwrite => LossMode::overwrite,
            }),
            block_timeout_us: None,
            subbuf_bytes: self.kernel_subbuf_size.map(told_bytes),
            subbuf_count: self.kernel_subbuf_count.map(i64::from),
            contexts: None,
            call_memory: None,
            addresses_only: None,
        };
        memory.apply(&mut request);
        request
    }
}

/// More than the contract allows is pisted's to refuse; more than it can be told is as much too much.
fn told_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct OneChannel {
        #[command(flatten)]
        options: ChannelOptions,
    }

    #[test]
    fn options_become_a_request() {
        let request = |line: &str| {
            let line = ["name"].into_iter().chain(line.split_whitespace());
            OneChannel::try_parse_from(line)
                .unwrap()
                .options
                .request(Domain::user, "web".into())
        };
        let plain = request("");
        assert_eq!(
            (plain.name.as_str(), plain.loss, plain.subbuf_bytes, &plain.contexts),
            ("web", None, None, &None)
        );

        let full = request("--block 500ms --subbuf-size 1M --num-subbuf 8 --no-default-contexts");
        assert_eq!(
            (full.loss, full.block_timeout_us),
            (Some(LossMode::block), Some(500_000))
        );
        assert_eq!((full.subbuf_bytes, full.subbuf_count), (Some(1 << 20), Some(8)));
        assert_eq!(full.contexts, Some(vec![]));

        let forever = request("--block forever");
        assert_eq!((forever.loss, forever.block_timeout_us), (Some(LossMode::block), None));
    }
}
