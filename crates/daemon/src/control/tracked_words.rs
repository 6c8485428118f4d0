// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sessions are about, between the words of the interface and those of the machine.

use piste_control::interface as shown;

use super::host;
use crate::link::Domain;
use crate::session::choice::{Choice, Kind, Value};
use crate::session::{Process, Refusal};

/// A choice.
pub fn shown(choice: &Choice) -> shown::Tracked {
    let numbers = |kind| {
        let number = |value: &Value| match value {
            Value::Number(number) => Some(i64::from(*number)),
            Value::Process(process) => Some(process.pid.into()),
            Value::Text(_) => None,
        };
        Some(choice.values(kind)?.filter_map(number).collect())
    };
    let texts = |kind| Some(choice.values(kind)?.map(Value::to_string).collect());
    shown::Tracked {
        pids: numbers(Kind::Process),
        follow_children: choice.follows_children(),
        uids: numbers(Kind::User),
        gids: numbers(Kind::Group),
        executables: texts(Kind::Executable),
        control_groups: texts(Kind::ControlGroup),
        process_groups: numbers(Kind::ProcessGroup),
        process_sessions: numbers(Kind::ProcessSession),
        cpus: numbers(Kind::Cpu),
    }
}

/// A domain.
pub fn wanted_domain(domain: &shown::Domain) -> Domain {
    match domain {
        shown::Domain::user => Domain::User,
        shown::Domain::kernel => Domain::Kernel,
    }
}

/// Values that are to be added, on a machine with so many CPUs.
///
/// # Errors
/// The first that cannot be: a number out of its range, or of no process.
pub fn wanted(wanted: shown::Tracked, cpu_count: u32) -> Result<Choice, Refusal> {
    let running = |pid: u32| {
        let pid = pid.cast_signed();
        host::process_start(pid).map(|start| Process { pid, start })
    };
    choice(wanted, cpu_count, running, "the ID of a running process")
}

/// Values that are to be removed: processes may have ended.
///
/// # Errors
/// The first that cannot be.
pub fn unwanted(unwanted: shown::Tracked, cpu_count: u32) -> Result<Choice, Refusal> {
    let known = |pid: u32| {
        Some(Process {
            pid: pid.cast_signed(),
            start: 0,
        })
    };
    choice(unwanted, cpu_count, known, "")
}

fn choice(
    wanted: shown::Tracked,
    cpu_count: u32,
    process: impl Fn(u32) -> Option<Process>,
    allowed: &str,
) -> Result<Choice, Refusal> {
    let values = |kind: Kind, wanted: Option<Vec<i64>>, least, most| -> Result<_, Refusal> {
        let value = |number| Ok(Value::Number(number_of(kind, number, least, most)?));
        let values = |wanted: Vec<i64>| wanted.into_iter().map(value).collect::<Result<Vec<_>, Refusal>>();
        wanted.filter(|wanted| !wanted.is_empty()).map(values).transpose()
    };
    let texts = |wanted: Option<Vec<String>>| {
        let wanted = wanted.filter(|wanted| !wanted.is_empty())?;
        Some(wanted.into_iter().map(Value::Text).collect::<Vec<_>>())
    };
    const NUMBER_MAX: u32 = i32::MAX as u32;
    const ID_MAX: u32 = u32::MAX - 1;
    let process = |number| {
        let pid = number_of(Kind::Process, number, 1, NUMBER_MAX)?;
        let process = process(pid).ok_or_else(|| Refusal::InvalidSetting {
            setting: Kind::Process.name(),
            value: pid.to_string(),
            allowed: allowed.to_owned(),
        })?;
        Ok(Value::Process(process))
    };
    let processes = wanted.pids.filter(|pids| !pids.is_empty());
    let processes = processes.map(|pids| pids.into_iter().map(process).collect::<Result<Vec<_>, Refusal>>());
    Ok(Choice::default()
        .with(Kind::Process, processes.transpose()?)
        .following(wanted.follow_children)
        .with(Kind::User, values(Kind::User, wanted.uids, 0, ID_MAX)?)
        .with(Kind::Group, values(Kind::Group, wanted.gids, 0, ID_MAX)?)
        .with(Kind::Executable, texts(wanted.executables))
        .with(Kind::ControlGroup, texts(wanted.control_groups))
        .with(
            Kind::ProcessGroup,
            values(Kind::ProcessGroup, wanted.process_groups, 1, NUMBER_MAX)?,
        )
        .with(
            Kind::ProcessSession,
            values(Kind::ProcessSession, wanted.process_sessions, 1, NUMBER_MAX)?,
        )
        .with(Kind::Cpu, values(Kind::Cpu, wanted.cpus, 0, cpu_count - 1)?))
}

fn number_of(kind: Kind, wanted: i64, least: u32, most: u32) -> Result<u32, Refusal> {
    u32::try_from(wanted)
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| Refusal::InvalidSetting {
            setting: kind.name(),
            value: wanted.to_string(),
            allowed: format!("{least} to {most}"),
        })
}
