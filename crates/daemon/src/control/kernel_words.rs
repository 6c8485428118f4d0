// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel domain in the words of the control interface, and back.

use piste_control::interface as shown;
use piste_kernel::spec::{CallPart, ChannelSpec, EventSource, Rule, Stack};

use super::status;
use crate::session::Refusal;
use crate::session::kernel::pattern;
use crate::session::kernel_settings::loss;

/// A kernel channel's settings.
pub fn settings(channel: &ChannelSpec) -> shown::ChannelSettings {
    shown::ChannelSettings {
        name: channel.name.clone(),
        domain: shown::Domain::kernel,
        loss: status::loss(loss(channel)),
        block_timeout_us: None,
        subbuf_bytes: channel.subbuf_bytes.into(),
        subbuf_count: channel.subbuf_count.into(),
        contexts: channel
            .all_contexts()
            .map(|context| context.name().to_owned())
            .collect(),
        call_memory: channel.memory.map(|memory| shown::CallMemory {
            environment: memory.environment,
            buffer_bytes: memory.buffer_bytes.into(),
        }),
    }
}

/// A kernel channel's rules.
pub fn rules(rules: &[Rule]) -> Vec<shown::KernelRule> {
    rules.iter().map(rule).collect()
}

fn rule(rule: &Rule) -> shown::KernelRule {
    use shown::KernelEventKind as Kind;
    let none = (None, None, Vec::new());
    let (kind, (binary, place, arguments)) = match &rule.source {
        EventSource::Tracepoint { .. } => (Kind::tracepoint, none),
        EventSource::Syscall { .. } => (Kind::syscall, none),
        EventSource::Uprobe {
            binary,
            place,
            arguments,
            is_return,
            ..
        } => {
            let kind = if *is_return { Kind::uretprobe } else { Kind::uprobe };
            (kind, (Some(binary.clone()), Some(place.clone()), arguments.clone()))
        }
        EventSource::Usdt { binary, .. } => (Kind::usdt, (Some(binary.clone()), None, Vec::new())),
        EventSource::Kprobe {
            place,
            arguments,
            is_return,
            ..
        } => {
            let kind = if *is_return { Kind::kretprobe } else { Kind::kprobe };
            (kind, (None, Some(place.clone()), arguments.clone()))
        }
    };
    let call_part = match rule.source {
        EventSource::Syscall { part, .. } => shown_part(part),
        _ => None,
    };
    shown::KernelRule {
        kind,
        pattern: pattern(&rule.source),
        call_part,
        binary,
        place,
        arguments,
        excluded: rule.excluded.clone(),
        filter: rule.filter.clone(),
        fields: rule.fields.clone(),
        stack: rule.stack.as_ref().map(stack),
        enabled: rule.enabled,
    }
}

fn shown_part(part: CallPart) -> Option<shown::CallPart> {
    match part {
        CallPart::Both => None,
        CallPart::Entry => Some(shown::CallPart::entry),
        CallPart::Exit => Some(shown::CallPart::exit),
    }
}

fn wanted_part(part: Option<shown::CallPart>) -> CallPart {
    match part {
        None => CallPart::Both,
        Some(shown::CallPart::entry) => CallPart::Entry,
        Some(shown::CallPart::exit) => CallPart::Exit,
    }
}

fn stack(stack: &Stack) -> shown::CallStack {
    let address = |address| i64::from_ne_bytes(u64::to_ne_bytes(address));
    shown::CallStack {
        kernel: stack.kernel,
        user: stack.user,
        depth: stack.depth.map(i64::from),
        range_begin: stack.range.map(|(begin, _)| address(begin)),
        range_end: stack.range.map(|(_, end)| address(end)),
    }
}

/// The rules that are wanted; all of them enabled.
///
/// # Errors
/// Something is said that does not go with the kind of event, or something is missing.
pub fn wanted_rules(wanted: Vec<shown::KernelRule>) -> Result<Vec<Rule>, Refusal> {
    wanted.into_iter().map(wanted_rule).collect()
}

fn wanted_rule(wanted: shown::KernelRule) -> Result<Rule, Refusal> {
    use shown::KernelEventKind as Kind;
    let stack = wanted.stack.as_ref().map(wanted_stack).transpose()?;
    let mut said = Said {
        pattern: wanted.pattern,
        call_part: wanted.call_part,
        binary: wanted.binary,
        place: wanted.place,
        arguments: wanted.arguments,
    };
    let source = match wanted.kind {
        Kind::tracepoint => EventSource::Tracepoint {
            pattern: said.pattern.clone(),
        },
        Kind::syscall => EventSource::Syscall {
            pattern: said.pattern.clone(),
            part: wanted_part(said.call_part.take()),
        },
        kind @ (Kind::uprobe | Kind::uretprobe) => EventSource::Uprobe {
            name: said.pattern.clone(),
            binary: said.take_binary()?,
            place: said.take_place()?,
            arguments: std::mem::take(&mut said.arguments),
            is_return: matches!(kind, Kind::uretprobe),
        },
        Kind::usdt => {
            let Some((provider, probe)) = said.pattern.split_once(':') else {
                return Err(said.invalid("a USDT probe must have the form PROVIDER:NAME"));
            };
            let (provider, probe) = (provider.to_owned(), probe.to_owned());
            EventSource::Usdt {
                binary: said.take_binary()?,
                provider,
                probe,
            }
        }
        kind @ (Kind::kprobe | Kind::kretprobe) => EventSource::Kprobe {
            name: said.pattern.clone(),
            place: said.take_place()?,
            arguments: std::mem::take(&mut said.arguments),
            is_return: matches!(kind, Kind::kretprobe),
        },
    };
    said.check_nothing_left()?;
    Ok(Rule {
        source,
        excluded: wanted.excluded,
        filter: wanted.filter,
        fields: wanted.fields,
        stack,
        enabled: true,
    })
}

/// What a rule says about its place, as far as nothing was made of it yet.
struct Said {
    pattern: String,
    call_part: Option<shown::CallPart>,
    binary: Option<String>,
    place: Option<String>,
    arguments: Vec<String>,
}

impl Said {
    fn take_binary(&mut self) -> Result<String, Refusal> {
        let binary = self.binary.take().ok_or_else(|| self.invalid("it has no binary"))?;
        if binary.starts_with('/') {
            return Ok(binary);
        }
        self.binary = Some(binary);
        Err(self.invalid("the path of the binary must be absolute"))
    }

    fn take_place(&mut self) -> Result<String, Refusal> {
        self.place.take().ok_or_else(|| self.invalid("it has no place"))
    }

    fn check_nothing_left(&self) -> Result<(), Refusal> {
        if self.call_part.is_some() {
            return Err(self.invalid("only system calls have an entry and an exit"));
        }
        match (&self.binary, &self.place, &*self.arguments) {
            (None, None, []) => Ok(()),
            (Some(_), ..) => Err(self.invalid("events of this kind have no binary")),
            (_, Some(_), _) => Err(self.invalid("events of this kind have no place")),
            _ => Err(self.invalid("events of this kind cannot have additional arguments")),
        }
    }

    fn invalid(&self, reason: &str) -> Refusal {
        let places = [&self.binary, &self.place].into_iter().flatten();
        let words: Vec<&str> = [&self.pattern].into_iter().chain(places).map(|word| &**word).collect();
        Refusal::InvalidProbe {
            probe: words.join(" "),
            reason: reason.to_owned(),
        }
    }
}

fn wanted_stack(wanted: &shown::CallStack) -> Result<Stack, Refusal> {
    let invalid = |setting, value: String, allowed: &str| Refusal::InvalidSetting {
        setting,
        value,
        allowed: allowed.to_owned(),
    };
    if !wanted.kernel && !wanted.user {
        return Err(invalid("call stack", "none".into(), "kernel, user, or both"));
    }
    let depth = match wanted.depth {
        None => None,
        Some(depth) => match u32::try_from(depth) {
            Ok(depth @ 1..) => Some(depth),
            _ => return Err(invalid("depth of the call stack", depth.to_string(), "at least 1")),
        },
    };
    let address = |address| u64::from_ne_bytes(i64::to_ne_bytes(address));
    let range = match (wanted.range_begin.map(address), wanted.range_end.map(address)) {
        (None, None) => None,
        (Some(begin), Some(end)) if begin < end => Some((begin, end)),
        (begin, end) => {
            let text = |address: Option<u64>| address.map_or("?".into(), |address| format!("{address:#x}"));
            let value = format!("{} to {}", text(begin), text(end));
            return Err(invalid(
                "range of the call stack",
                value,
                "two addresses, the lower one first",
            ));
        }
    };
    Ok(Stack {
        kernel: wanted.kernel,
        user: wanted.user,
        depth,
        range,
    })
}
