// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers as the interface has them: refusals as its errors, long lists in parts.

use piste_control::Error;
use piste_control::interface::{self, ErrorKind, VarlinkCallError};

use super::status::{self, count};
use crate::session::Refusal;

/// Items in each part of a long answer.
const PART_COUNT_MAX: usize = 256;

/// Replies with a long list: in parts when the client said that it takes more than one.
pub fn in_parts<Call: VarlinkCallError + ?Sized, Item>(
    call: &mut Call,
    items: Vec<Item>,
    mut reply: impl FnMut(&mut Call, Vec<Item>) -> varlink::Result<()>,
) -> varlink::Result<()> {
    if !call.wants_more() {
        return reply(call, items);
    }
    let mut items = items.into_iter().peekable();
    loop {
        let part = items.by_ref().take(PART_COUNT_MAX).collect();
        let continues = items.peek().is_some();
        call.set_continues(continues);
        reply(call, part)?;
        if !continues {
            return Ok(());
        }
    }
}

/// A refusal as a sentence, the one that clients print.
pub fn sentence(refusal: Refusal) -> String {
    let mut kept = Kept(None);
    // It only keeps what it is given.
    let _ = refuse(&mut kept, refusal);
    let error = kept
        .0
        .map(|reply| Error::from(interface::Error::from(ErrorKind::from(&reply))));
    error.map_or_else(String::new, |error| error.to_string())
}

/// Keeps the reply instead of sending it.
struct Kept(Option<varlink::Reply>);

impl varlink::CallTrait for Kept {
    fn reply_struct(&mut self, reply: varlink::Reply) -> varlink::Result<()> {
        self.0 = Some(reply);
        Ok(())
    }

    fn set_continues(&mut self, _: bool) {}

    fn is_oneway(&self) -> bool {
        false
    }

    fn wants_more(&self) -> bool {
        false
    }

    fn get_request(&self) -> Option<&varlink::Request<'_>> {
        None
    }

    fn to_upgraded(&mut self) {}
}

impl VarlinkCallError for Kept {}

/// Replies with the error that a refusal is.
pub fn refuse<Call: VarlinkCallError + ?Sized>(call: &mut Call, refusal: Refusal) -> varlink::Result<()> {
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    match refusal {
        Refusal::NoSession { name, nearest } => call.reply_no_session(name, nearest),
        Refusal::NoCurrentSession => call.reply_no_current_session(),
        Refusal::SessionExists { name } => call.reply_session_exists(name),
        Refusal::NoTrigger { name, nearest } => call.reply_no_trigger(name, nearest),
        Refusal::TriggerExists { name } => call.reply_trigger_exists(name),
        Refusal::SessionsExist { names } => call.reply_sessions_exist(names),
        Refusal::NoChannel {
            name,
            session,
            domain,
            nearest,
        } => call.reply_no_channel(name, session, status::domain(domain), nearest),
        Refusal::ChannelExists {
            name,
            session,
            setting,
            value,
        } => call.reply_channel_exists(name, session, setting.into(), value),
        Refusal::TooManyChannels { session, limit } => call.reply_too_many_channels(session, count(limit)),
        Refusal::NoRule {
            pattern,
            channel,
            nearest,
        } => call.reply_no_rule(pattern, channel, nearest),
        Refusal::NotTracked { kind, value, tracked } => call.reply_not_tracked(kind.into(), value, tracked),
        Refusal::NoKernelDomain { reason, mend } => call.reply_no_kernel_domain(reason, mend),
        Refusal::NoEvent { pattern, nearest } => call.reply_no_event(pattern, nearest),
        Refusal::NoField {
            field,
            pattern,
            nearest,
        } => call.reply_no_field(field, pattern, nearest),
        Refusal::InvalidFilter {
            filter,
            position,
            reason,
        } => call.reply_invalid_filter(filter, count(position), reason),
        Refusal::InvalidProbe { probe, reason } => call.reply_invalid_probe(probe, reason),
        Refusal::InvalidPattern(invalid) => {
            call.reply_invalid_pattern(invalid.pattern, count(invalid.position), invalid.reason.into_owned())
        }
        Refusal::InvalidSetting {
            setting,
            value,
            allowed,
        } => call.reply_invalid_setting(setting.into(), value, allowed),
        Refusal::NothingEnabled {
            session,
            disabled_channels,
        } => call.reply_nothing_enabled(session, disabled_channels),
        Refusal::AlreadyActive { session } => call.reply_already_active(session),
        Refusal::NotActive { session } => call.reply_not_active(session),
        Refusal::NotSnapshot { session } => call.reply_not_snapshot(session),
        Refusal::IsSnapshot { session } => call.reply_is_snapshot(session),
        Refusal::NeverStarted { session } => call.reply_never_started(session),
        Refusal::RotationInProgress { session } => call.reply_rotation_in_progress(session),
        Refusal::OutputExists { path } => call.reply_output_exists(text(path)),
        Refusal::OutputFailed { path, reason } => call.reply_output_failed(text(path), reason),
        Refusal::NoPermission { what, mend } => call.reply_no_permission(what, mend),
        Refusal::ConsumerFailed { reason } => call.reply_consumer_failed(reason),
        Refusal::Internal { reason } => call.reply_internal(reason),
    }
}
