// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that people ask for: defaults, limits, and what cannot be.

use piste_abi::{PISTE_SUBBUF_BYTES_MAX, PISTE_SUBBUF_BYTES_MIN, PISTE_SUBBUF_COUNT_MAX, PISTE_SUBBUF_COUNT_MIN};

use super::channel::ChannelSettings;
use super::machine::Host;
use super::refusal::Refusal;
use crate::contexts::{Contexts, WrongContext};
use crate::link::{Geometry, Loss};

const DEFAULT_SUBBUF_BYTES: u32 = 256 << 10;
const DEFAULT_SUBBUF_COUNT: u32 = 4;
const NAME_BYTES_MAX: usize = 127;

/// Settings of a channel that is wanted; what is absent gets the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in ChannelSettings and Geometry")]
pub struct ChannelRequest {
    pub name: String,
    pub loss: Option<Loss>,
    pub block_timeout_us: Option<i64>,
    pub subbuf_bytes: Option<i64>,
    pub subbuf_count: Option<i64>,
    pub contexts: Option<Vec<String>>,
    /// Only for the kernel.
    pub memory: Option<MemoryRequest>,
}

/// What is wanted of the memory that arguments of system calls point to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRequest {
    /// Nothing: their addresses only.
    Nothing,
    /// Texts, addresses and small structures, and more.
    More {
        /// The environment of programs that are executed.
        environment: bool,
        /// The first bytes of what is read and written.
        buffer_bytes: i64,
    },
}

/// The settings of a channel that is wanted, in a session with `snapshot` or without.
///
/// # Errors
/// The first setting that cannot be.
pub(super) fn settle(wanted: &ChannelRequest, snapshot: bool, host: Host) -> Result<ChannelSettings, Refusal> {
    let default_loss = if snapshot { Loss::Overwrite } else { Loss::Discard };
    let loss = wanted.loss.unwrap_or(default_loss);
    if snapshot && loss == Loss::Block {
        let allowed =
            "overwrite, or discard to keep the first events, because the session has no reader while it records";
        return Err(invalid("loss mode", loss.name(), allowed));
    }
    let block_timeout_us = match (loss, wanted.block_timeout_us) {
        (Loss::Block, None) => u32::MAX,
        (Loss::Block, Some(timeout_us)) => u32::try_from(timeout_us)
            .ok()
            .filter(|&timeout_us| timeout_us < u32::MAX)
            .ok_or_else(|| invalid("block timeout", timeout_us, "0 to 4294967294 microseconds"))?,
        (_, None) => 0,
        (_, Some(timeout_us)) => {
            return Err(invalid(
                "block timeout",
                timeout_us,
                "none, because the loss mode is not block",
            ));
        }
    };
    let geometry = Geometry {
        ring_count: host.ring_count,
        subbuf_bytes: power_of_two(
            "sub-buffer size",
            wanted.subbuf_bytes.unwrap_or(DEFAULT_SUBBUF_BYTES.into()),
            PISTE_SUBBUF_BYTES_MIN,
            PISTE_SUBBUF_BYTES_MAX,
        )?,
        subbuf_count: power_of_two(
            "number of sub-buffers",
            wanted.subbuf_count.unwrap_or(DEFAULT_SUBBUF_COUNT.into()),
            PISTE_SUBBUF_COUNT_MIN,
            PISTE_SUBBUF_COUNT_MAX,
        )?,
        loss,
        block_timeout_us,
        clock: host.clock,
    };
    if let Err(error) = geometry.memory() {
        let value = format!("{} x {}", geometry.subbuf_count, geometry.subbuf_bytes);
        return Err(invalid("number and size of sub-buffers", value, &error.to_string()));
    }
    Ok(ChannelSettings {
        name: wanted.name.clone(),
        geometry,
        contexts: contexts(wanted)?.unwrap_or_default(),
    })
}

/// The contexts that were asked for.
fn contexts(wanted: &ChannelRequest) -> Result<Option<Contexts>, Refusal> {
    let of = |names| Contexts::of(names).map_err(Refusal::from);
    wanted.contexts.as_deref().map(of).transpose()
}

impl From<WrongContext> for Refusal {
    fn from(wrong: WrongContext) -> Refusal {
        invalid("context", wrong.name, &wrong.allowed)
    }
}

impl Loss {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Discard => "discard",
            Loss::Overwrite => "overwrite",
            Loss::Block => "block",
        }
    }
}

pub(super) fn invalid(setting: &'static str, value: impl ToString, allowed: &str) -> Refusal {
    Refusal::InvalidSetting {
        setting,
        value: value.to_string(),
        allowed: allowed.to_owned(),
    }
}

/// Names become names of files and folders.
pub(super) fn check_name(setting: &'static str, name: &str) -> Result<(), Refusal> {
    let possible = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with(['.', '-'])
        && !name.contains(|character: char| character == '/' || character.is_control());
    if possible {
        return Ok(());
    }
    let allowed = format!("1 to {NAME_BYTES_MAX} bytes without `/`, not starting with `.` or `-`");
    Err(invalid(setting, name, &allowed))
}

pub(super) fn power_of_two(setting: &'static str, value: i64, least: u32, most: u32) -> Result<u32, Refusal> {
    u32::try_from(value)
        .ok()
        .filter(|number| number.is_power_of_two() && (least..=most).contains(number))
        .ok_or_else(|| invalid(setting, value, &format!("a power of two from {least} to {most}")))
}

/// A channel that exists is as wanted when nothing that was said contradicts it.
pub(super) fn check_same(existing: &ChannelSettings, wanted: &ChannelRequest, session: &str) -> Result<(), Refusal> {
    let is = &existing.geometry;
    let differs = |setting, is_other, value| differs(&existing.name, session, setting, is_other, value);
    differs("loss mode", other(wanted.loss, is.loss), is.loss.name().into())?;
    let timeout = match is.block_timeout_us {
        u32::MAX => "unlimited".into(),
        timeout_us => format!("{timeout_us} us"),
    };
    differs(
        "block timeout",
        other(wanted.block_timeout_us, is.block_timeout_us.into()),
        timeout,
    )?;
    differs(
        "sub-buffer size",
        other(wanted.subbuf_bytes, is.subbuf_bytes.into()),
        is.subbuf_bytes.to_string(),
    )?;
    differs(
        "number of sub-buffers",
        other(wanted.subbuf_count, is.subbuf_count.into()),
        is.subbuf_count.to_string(),
    )?;
    differs(
        "contexts",
        contexts(wanted)?.is_some_and(|wanted| wanted != existing.contexts),
        existing.contexts.names().join(", "),
    )
}

pub(super) fn differs(
    channel: &str,
    session: &str,
    setting: &'static str,
    is_other: bool,
    value: String,
) -> Result<(), Refusal> {
    match is_other {
        false => Ok(()),
        true => Err(Refusal::ChannelExists {
            name: channel.to_owned(),
            session: session.to_owned(),
            setting,
            value,
        }),
    }
}

pub(super) fn other<T: PartialEq>(wanted: Option<T>, is: T) -> bool {
    wanted.is_some_and(|wanted| wanted != is)
}
