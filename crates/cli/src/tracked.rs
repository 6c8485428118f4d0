// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session is about: `piste track` and `piste untrack`; the same for the kernel as options of `record`; and as text.

use clap::Args;
use piste_control::interface::{ChannelStatus, Domain, Tracked, VarlinkClient, VarlinkClientInterface};
use serde_json::json;

use crate::arguments::{DomainFlags, Track, TrackedValues, Untrack};
use crate::child;
use crate::failure::Failure;
use crate::ids::{parse_group, parse_id, parse_user};
use crate::json::of_pisted;
use crate::quantity::counted;
use crate::screen::{printable, show, show_json};
use crate::session::connect;
use crate::status::domain_name;

/// What `record` restricts the kernel to, beside processes.
#[derive(Args)]
pub(crate) struct TrackedOptions {
    /// Record kernel events only of threads of these users, given by ID or name
    #[arg(long = "uid", value_name = "UID", value_delimiter = ',', value_parser = parse_user)]
    uids: Vec<u32>,
    /// Record kernel events only of threads of these groups, given by ID or name
    #[arg(long = "gid", value_name = "GID", value_delimiter = ',', value_parser = parse_group)]
    gids: Vec<u32>,
    /// Record kernel events only of threads of these process groups
    #[arg(long = "pgroup", value_name = "PGID", value_delimiter = ',', value_parser = parse_id::<u32>)]
    process_groups: Vec<u32>,
    /// Record kernel events only of threads of these process sessions (setsid)
    #[arg(long = "psession", value_name = "SID", value_delimiter = ',', value_parser = parse_id::<u32>)]
    process_sessions: Vec<u32>,
    /// Record kernel events only on these CPUs: 0,2-3
    #[arg(long = "cpu", value_name = "LIST", value_parser = parse_cpus)]
    cpus: Option<Cpus>,
}

/// CPUs, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus(Vec<u32>);

/// `0,2-3`
pub(crate) fn parse_cpus(text: &str) -> Result<Cpus, String> {
    const CPUS_MAX: u32 = 65536;
    let number = |text: &str| match text.parse::<u32>() {
        Ok(cpu) if cpu < CPUS_MAX => Ok(cpu),
        _ => Err(format!("{text:?} is not a CPU number; write for example 0,2-3")),
    };
    let mut cpus = vec![];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("{part:?} ends before it begins"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Cpus(cpus))
}

/// A path as in /proc/PID/cgroup, or that of the folder where control groups are usually mounted.
pub(crate) fn parse_control_group(text: &str) -> Result<String, String> {
    const MOUNT: &str = "/sys/fs/cgroup";
    let path = match text.strip_prefix(MOUNT) {
        Some("") => "/",
        Some(below) if below.starts_with('/') => below,
        _ => text,
    };
    match path.starts_with('/') {
        true => Ok(path.to_owned()),
        false => {
            Err("not a path from the root of the control groups; write for example /system.slice/shop.service".into())
        }
    }
}

impl TrackedOptions {
    /// These processes under these restrictions.
    pub(crate) fn tracked(&self, pids: &[u32], follow_children: bool) -> Tracked {
        Tracked {
            pids: numbers(pids),
            follow_children,
            uids: numbers(&self.uids),
            gids: numbers(&self.gids),
            process_groups: numbers(&self.process_groups),
            process_sessions: numbers(&self.process_sessions),
            cpus: self.cpus.as_ref().and_then(|cpus| numbers(&cpus.0)),
            ..Tracked::default()
        }
    }
}

impl TrackedValues {
    fn tracked(&self) -> Tracked {
        let texts = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
        Tracked {
            pids: numbers(&self.pids),
            follow_children: self.follow,
            uids: numbers(&self.uids),
            gids: numbers(&self.gids),
            executables: texts(&self.executables),
            control_groups: texts(&self.control_groups),
            process_groups: numbers(&self.process_groups),
            process_sessions: numbers(&self.process_sessions),
            cpus: self.cpus.as_ref().and_then(|cpus| numbers(&cpus.0)),
        }
    }

    /// The domain that only has such values.
    fn domain(&self) -> Option<Domain> {
        if !self.executables.is_empty() || !self.control_groups.is_empty() {
            return Some(Domain::user);
        }
        let is_of_kernel = !self.process_groups.is_empty() || !self.process_sessions.is_empty() || self.cpus.is_some();
        is_of_kernel.then_some(Domain::kernel)
    }
}

/// A set, if it has values.
fn numbers(ids: &[u32]) -> Option<Vec<i64>> {
    (!ids.is_empty()).then(|| ids.iter().copied().map(i64::from).collect())
}

/// `piste track`
pub(crate) fn track(arguments: &Track, json: bool) -> Result<(), Failure> {
    if let Some(pid) = arguments.values.pids.iter().find(|pid| child::process(**pid).is_none()) {
        return Err(Failure::new(format!("there is no process {pid}")));
    }
    let mut client = connect()?;
    let calls = client.calls();
    let session = arguments.session.session.clone();
    let domain = domain(calls, &arguments.domain, &arguments.values, session.as_ref())?;
    if arguments.all {
        calls.track_everything(session, domain.clone()).call()?;
        return tell(&domain, &Tracked::default(), json);
    }
    let reply = calls
        .track(session, domain.clone(), arguments.values.tracked())
        .call()?;
    tell(&domain, &reply.tracked, json)
}

/// `piste untrack`
pub(crate) fn untrack(arguments: &Untrack, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    let calls = client.calls();
    let session = arguments.session.session.clone();
    let domain = domain(calls, &arguments.domain, &arguments.values, session.as_ref())?;
    let reply = calls
        .untrack(session, domain.clone(), arguments.values.tracked())
        .call()?;
    tell(&domain, &reply.tracked, json)
}

/// The domain that is meant: the one that was named, or that alone has such values, or in which alone the session has channels.
fn domain(
    calls: &mut VarlinkClient,
    flags: &DomainFlags,
    values: &TrackedValues,
    session: Option<&String>,
) -> Result<Domain, Failure> {
    if let Some(domain) = flags.named().or_else(|| values.domain()) {
        return Ok(domain);
    }
    let session = calls.status(session.cloned()).call()?.session;
    let has = |domain: Domain| {
        let is_of = |channel: &ChannelStatus| channel.settings.domain == domain;
        session.channels.iter().any(is_of)
    };
    match (has(Domain::user), has(Domain::kernel)) {
        (true, true) => Err(Failure::new(format!(
            "session {:?} records programs and the kernel; choose programs with -u, or threads and CPUs of the kernel with -k",
            session.name
        ))),
        (false, true) => Ok(Domain::kernel),
        (_, false) => Ok(Domain::user),
    }
}

fn tell(domain: &Domain, tracked: &Tracked, json: bool) -> Result<(), Failure> {
    if json {
        return show_json(&json!({ "domain": domain_name(domain), "tracked": of_pisted(tracked)? }));
    }
    let mut line = match (domain, text(tracked)) {
        (Domain::user, None) => "recording all programs".to_owned(),
        (Domain::user, Some(about)) => format!("recording programs that match: {about}"),
        (Domain::kernel, None) => "recording the kernel for the whole system".to_owned(),
        (Domain::kernel, Some(about)) => format!("recording the kernel for {about}"),
    };
    if allows_nothing(tracked) {
        line += "; so nothing is recorded until you track another one, or everything with `piste track --all`";
    }
    show(&format!("{line}\n"))
}

/// These processes and what they start.
pub(crate) fn processes(pids: &[u32]) -> Tracked {
    Tracked {
        pids: numbers(pids),
        follow_children: true,
        ..Tracked::default()
    }
}

/// Each kind with its values as text, where it has a set.
fn sets(tracked: &Tracked) -> Vec<(&'static str, Vec<String>)> {
    let numbers = |ids: &Option<Vec<i64>>| Some(ids.as_ref()?.iter().map(i64::to_string).collect());
    let sets = [
        ("pid", numbers(&tracked.pids)),
        ("process group", numbers(&tracked.process_groups)),
        ("process session", numbers(&tracked.process_sessions)),
        ("uid", numbers(&tracked.uids)),
        ("gid", numbers(&tracked.gids)),
        ("exec", tracked.executables.clone()),
        ("cgroup", tracked.control_groups.clone()),
        ("cpu", numbers(&tracked.cpus)),
    ];
    sets.into_iter()
        .filter_map(|(kind, values)| Some((kind, values?)))
        .collect()
}

/// Whether the last value of some kind was removed.
fn allows_nothing(tracked: &Tracked) -> bool {
    sets(tracked).iter().any(|(_, values)| values.is_empty())
}

/// `pid 12 13 with what they start, uid 1000, cpu 0 1`; nothing when everything is tracked.
pub(crate) fn text(tracked: &Tracked) -> Option<String> {
    const SHOWN: usize = 8;
    let mut parts = vec![];
    for (kind, values) in sets(tracked) {
        if values.is_empty() {
            parts.push(format!("no {kind}"));
            continue;
        }
        let mut part = kind.to_owned();
        for value in values.iter().take(SHOWN) {
            part += &format!(" {value}");
        }
        if values.len() > SHOWN {
            part += &format!(" and {}", counted((values.len() - SHOWN) as i64, "other"));
        }
        if kind == "pid" && tracked.follow_children {
            part += if values.len() == 1 {
                " with what it starts"
            } else {
                " with what they start"
            };
        }
        parts.push(part);
    }
    (!parts.is_empty()).then(|| printable(&parts.join(", ")).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(parse_cpus("3,0-1,1"), Ok(Cpus(vec![0, 1, 3])));
        for wrong in ["", "a", "1-", "3-1", "99999999", "0-99999999"] {
            assert!(parse_cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_tracked_reads_as_a_list() {
        let options = TrackedOptions {
            uids: vec![1000],
            gids: vec![],
            process_groups: vec![],
            process_sessions: vec![],
            cpus: Some(Cpus(vec![0, 1])),
        };
        assert_eq!(
            text(&options.tracked(&[12, 13], true)).as_deref(),
            Some("pid 12 13 with what they start, uid 1000, cpu 0 1")
        );
        let many: Vec<u32> = (1..=10).collect();
        let text = text(&options.tracked(&many, false)).unwrap();
        assert!(text.starts_with("pid 1 2 3 4 5 6 7 8 and 2 others, uid"), "{text}");
    }

    #[test]
    fn a_set_without_values_is_told() {
        let tracked = Tracked {
            uids: Some(vec![]),
            executables: Some(vec!["shop*".into()]),
            ..Tracked::default()
        };
        assert_eq!(text(&tracked).as_deref(), Some("no uid, exec shop*"));
        assert!(allows_nothing(&tracked));
        assert_eq!(text(&Tracked::default()), None);
    }

    #[test]
    fn control_groups_are_paths_from_their_root() {
        for (text, path) in [
            ("/shop.slice", "/shop.slice"),
            ("/sys/fs/cgroup/shop.slice", "/shop.slice"),
            ("/sys/fs/cgroup", "/"),
            ("/sys/fs/cgroups", "/sys/fs/cgroups"),
        ] {
            assert_eq!(parse_control_group(text).as_deref(), Ok(path));
        }
        assert!(parse_control_group("shop.slice").is_err());
    }
}
