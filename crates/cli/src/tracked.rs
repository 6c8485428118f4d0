// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel domain of a session is about: threads and CPUs, as options, as `piste track`, and as text.

use clap::Args;
use piste_control::interface::{Tracked, VarlinkClientInterface};
use serde_json::json;

use crate::arguments::Track;
use crate::child;
use crate::failure::Failure;
use crate::ids::{parse_group, parse_id, parse_user};
use crate::quantity::counted;
use crate::screen::{printable, show, show_json};
use crate::session::connect;

/// Restrictions beside processes: `record` and `track` have the same.
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
struct Cpus(Vec<u32>);

fn parse_cpus(text: &str) -> Result<Cpus, String> {
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

impl TrackedOptions {
    /// These processes under these restrictions.
    pub(crate) fn tracked(&self, pids: &[u32], follow_children: bool) -> Tracked {
        let list = |ids: &[u32]| ids.iter().copied().map(i64::from).collect();
        Tracked {
            pids: list(pids),
            follow_children,
            process_groups: list(&self.process_groups),
            process_sessions: list(&self.process_sessions),
            uids: list(&self.uids),
            gids: list(&self.gids),
            cpus: list(self.cpus.as_ref().map_or(&[], |cpus| &cpus.0)),
        }
    }
}

/// `piste track`
pub(crate) fn track(arguments: Track, json: bool) -> Result<(), Failure> {
    if let Some(pid) = arguments.pids.iter().find(|pid| child::process(**pid).is_none()) {
        return Err(Failure::new(format!("there is no process {pid}")));
    }
    let tracked = arguments.options.tracked(&arguments.pids, arguments.follow);
    let session = arguments.session.session;
    connect()?.calls().set_tracked(session, tracked.clone()).call()?;
    if json {
        return show_json(&json!({ "tracked": tracked }));
    }
    let about = text(&tracked).unwrap_or_else(|| "the whole system".into());
    show(&format!("recording the kernel for {about}\n"))
}

/// `pid 12 13 with what they start, uid 1000, cpu 0 1`; nothing when everything is tracked.
pub(crate) fn text(tracked: &Tracked) -> Option<String> {
    const SHOWN: usize = 8;
    let lists = [
        ("pid", &tracked.pids),
        ("process group", &tracked.process_groups),
        ("process session", &tracked.process_sessions),
        ("uid", &tracked.uids),
        ("gid", &tracked.gids),
        ("cpu", &tracked.cpus),
    ];
    let mut parts = vec![];
    for (what, ids) in lists.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let mut part = what.to_owned();
        for id in ids.iter().take(SHOWN) {
            part += &format!(" {id}");
        }
        if ids.len() > SHOWN {
            part += &format!(" and {}", counted((ids.len() - SHOWN) as i64, "other"));
        }
        if what == "pid" && tracked.follow_children {
            part += if ids.len() == 1 {
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
}
