// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a kernel channel: defaults, limits, and what cannot be.

use piste_kernel::spec::{ChannelSpec, Context, Loss as KernelLoss, Memory};

use super::refusal::Refusal;
use super::settings::{ChannelRequest, MemoryRequest, differs, invalid, other, power_of_two};
use crate::link::Loss;

const DEFAULT_SUBBUF_BYTES: u32 = 64 << 10;
const DEFAULT_SUBBUF_COUNT: u32 = 256;
const SUBBUF_BYTES_MIN: u32 = 4 << 10;
const SUBBUF_BYTES_MAX: u32 = 512 << 10;
/// The kernel reads one while it writes another.
const SUBBUF_COUNT_MIN: u32 = 2;
/// Of each CPU's ring; it is locked memory of the kernel's.
const RING_BYTES_MAX: u64 = 1 << 30;
/// Of the first bytes of what is read and written.
const BUFFER_BYTES_MAX: u16 = 4096;

/// The settings of a kernel channel that is wanted, in a session with `snapshot` or without; it has no rules yet.
///
/// # Errors
/// The first setting that cannot be.
pub(super) fn settle(wanted: &ChannelRequest, stream_id: u32, snapshot: bool) -> Result<ChannelSpec, Refusal> {
    let default_loss = if snapshot { Loss::Overwrite } else { Loss::Discard };
    let loss = wanted.loss.unwrap_or(default_loss);
    if snapshot && loss != Loss::Overwrite {
        let allowed = "overwrite, because the session keeps the kernel's rings in memory for snapshots";
        return Err(invalid("loss mode", loss.name(), allowed));
    }
    let loss = match loss {
        Loss::Discard => KernelLoss::Discard,
        Loss::Overwrite => KernelLoss::Overwrite,
        Loss::Block => {
            return Err(invalid(
                "loss mode",
                loss.name(),
                "discard or overwrite, because the kernel cannot wait",
            ));
        }
    };
    if let Some(timeout_us) = wanted.block_timeout_us {
        return Err(invalid(
            "block timeout",
            timeout_us,
            "none, because the kernel cannot wait",
        ));
    }
    let subbuf_bytes = power_of_two(
        "sub-buffer size",
        wanted.subbuf_bytes.unwrap_or(DEFAULT_SUBBUF_BYTES.into()),
        SUBBUF_BYTES_MIN,
        SUBBUF_BYTES_MAX,
    )?;
    let most = (RING_BYTES_MAX / u64::from(subbuf_bytes)) as u32;
    let wanted_count = wanted.subbuf_count.unwrap_or(DEFAULT_SUBBUF_COUNT.into());
    let subbuf_count = u32::try_from(wanted_count)
        .ok()
        .filter(|count| (SUBBUF_COUNT_MIN..=most).contains(count))
        .ok_or_else(|| {
            let allowed = format!("{SUBBUF_COUNT_MIN} to {most}, which is 1 GiB for each CPU");
            invalid("number of sub-buffers", wanted_count, &allowed)
        })?;
    Ok(ChannelSpec {
        stream_id,
        name: wanted.name.clone(),
        loss,
        subbuf_bytes,
        subbuf_count,
        contexts: contexts(wanted)?.unwrap_or_else(|| vec![Context::Tid]),
        added_contexts: Vec::new(),
        rules: Vec::new(),
        memory: memory(wanted)?.unwrap_or_else(|| Some(Memory::default())),
    })
}

/// The contexts that were asked for, in the order in which they are recorded.
fn contexts(wanted: &ChannelRequest) -> Result<Option<Vec<Context>>, Refusal> {
    wanted.contexts.as_deref().map(contexts_of).transpose()
}

/// Contexts by their names, in the order in which they are recorded.
///
/// # Errors
/// There is none of such a name.
pub(super) fn contexts_of(names: &[String]) -> Result<Vec<Context>, Refusal> {
    for name in names {
        if Context::from_name(name).is_none() {
            return Err(invalid("context", name, &names_of(&Context::ALL)));
        }
    }
    let is_wanted = |context: &Context| names.iter().any(|name| name == context.name());
    Ok(Context::ALL.into_iter().filter(is_wanted).collect())
}

/// What was asked for of the memory that arguments point to.
fn memory(wanted: &ChannelRequest) -> Result<Option<Option<Memory>>, Refusal> {
    Ok(match wanted.memory {
        None => None,
        Some(MemoryRequest::Nothing) => Some(None),
        Some(MemoryRequest::More {
            environment,
            buffer_bytes,
        }) => {
            let most = 0..=i64::from(BUFFER_BYTES_MAX);
            if !most.contains(&buffer_bytes) {
                return Err(invalid(
                    "number of bytes",
                    buffer_bytes,
                    &format!("0 to {BUFFER_BYTES_MAX}"),
                ));
            }
            let buffer_bytes = buffer_bytes as u16;
            Some(Some(Memory {
                environment,
                buffer_bytes,
            }))
        }
    })
}

fn names_of(contexts: &[Context]) -> String {
    let names: Vec<&str> = contexts.iter().map(|context| context.name()).collect();
    names.join(", ")
}

/// A channel that exists is as wanted when nothing that was said contradicts it.
pub(super) fn check_same(existing: &ChannelSpec, wanted: &ChannelRequest, session: &str) -> Result<(), Refusal> {
    let loss = loss(existing);
    let differs = |setting, is_other, value| differs(&existing.name, session, setting, is_other, value);
    differs("loss mode", other(wanted.loss, loss), loss.name().into())?;
    differs("block timeout", wanted.block_timeout_us.is_some(), "none".into())?;
    differs(
        "sub-buffer size",
        other(wanted.subbuf_bytes, existing.subbuf_bytes.into()),
        existing.subbuf_bytes.to_string(),
    )?;
    differs(
        "number of sub-buffers",
        other(wanted.subbuf_count, existing.subbuf_count.into()),
        existing.subbuf_count.to_string(),
    )?;
    let (contexts, existing_contexts) = (contexts(wanted)?, existing.all_contexts().collect::<Vec<_>>());
    let is_missing = |context: &Context| !existing_contexts.contains(context);
    differs(
        "contexts",
        contexts.is_some_and(|wanted| wanted.len() != existing_contexts.len() || wanted.iter().any(is_missing)),
        names_of(&existing_contexts),
    )?;
    differs(
        "memory of system calls",
        memory(wanted)?.is_some_and(|memory| memory != existing.memory),
        match existing.memory {
            None => "addresses only".to_owned(),
            Some(memory) => format!("{} bytes of buffers", memory.buffer_bytes),
        },
    )
}

/// The loss mode in the word that both domains share.
pub fn loss(channel: &ChannelSpec) -> Loss {
    match channel.loss {
        KernelLoss::Discard => Loss::Discard,
        KernelLoss::Overwrite => Loss::Overwrite,
    }
}
