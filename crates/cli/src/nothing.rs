// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a recording has no events, or none of programs where those were asked for.

use piste_control::interface::{Domain, SessionStatus};

use crate::screen::printable;
use crate::summary::Total;
use piste_patterns::nearest;

/// What the user asked to record.
pub(crate) struct Wanted<'a> {
    pub(crate) patterns: &'a [String],
    pub(crate) preloaded: bool,
}

/// The most likely reason, if something is to be explained.
pub(crate) fn reason(status: &SessionStatus, wanted: &Wanted) -> Option<String> {
    let is_nothing = |domain| Total::of_domain(status, &domain).map(|total| total.is_nothing());
    let (kernel, user) = (is_nothing(Domain::kernel), is_nothing(Domain::user));
    let asked_for = !wanted.patterns.is_empty() || wanted.preloaded;
    match (kernel, user) {
        // A program without events of its own is nothing special where the kernel's are recorded.
        (Some(false), Some(true)) if !asked_for => None,
        (_, Some(true)) => Some(of_programs(status, wanted)),
        (Some(true), None) => {
            Some("none of the enabled kernel events happened on the recorded threads and CPUs".into())
        }
        _ => None,
    }
}

fn of_programs(status: &SessionStatus, wanted: &Wanted) -> String {
    let nobody = status.participants.is_empty();
    if nobody && wanted.preloaded {
        return "no helper was loaded; is the program statically linked, set-user-ID, or without instrumented functions?".into();
    }
    if nobody {
        return "no program with events ran; `--preload libc` (or pthread, dl) records programs that have no events"
            .into();
    }
    if status.participants.iter().any(|participant| participant.matched > 0) {
        return "programs have the requested events, but none of them happened".into();
    }
    if wanted.patterns.is_empty() {
        return "the programs that ran have no events".into();
    }
    let known = || status.unmatched_events.iter().map(String::as_str);
    let patterns = wanted.patterns.join(", ");
    let mut near: Vec<String> = wanted
        .patterns
        .iter()
        .flat_map(|pattern| nearest(pattern, known(), 3))
        .collect();
    near.dedup();
    if near.is_empty() {
        near = known().take(3).map(str::to_owned).collect();
    }
    match near.as_slice() {
        [] => format!("no event matches {patterns}; the programs that ran have no events at all"),
        near => format!(
            "no event matches {patterns}; similar: {} (run `piste list` while the program is running to see all)",
            printable(&near.join(", "))
        ),
    }
}

#[cfg(test)]
mod tests {
    use piste_control::interface::Participant;

    use super::*;
    use crate::summary::recorded;
    use crate::summary::tests::{seen, session, with_kernel};

    fn without_events() -> SessionStatus {
        let mut session = session();
        session.findings.clear();
        session.channels[0].events = 0;
        session.channels[0].bytes = 0;
        session.channels[0].discarded_events = 0;
        session.participants.clear();
        session
    }

    fn why(session: &SessionStatus, patterns: &[&str], preloaded: bool) -> String {
        let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
        let lines = seen(&recorded(
            session,
            &Wanted {
                patterns: &patterns,
                preloaded,
            },
            None,
        ));
        let why = lines.lines().find_map(|line| line.trim().strip_prefix("why"));
        why.unwrap_or_default().trim().to_owned()
    }

    #[test]
    fn programs_without_events_are_explained_only_where_they_were_asked_for() {
        let mut session = with_kernel();
        session.channels[0].events = 0;
        session.channels[0].discarded_events = 0;
        session.participants.clear();
        assert_eq!(why(&session, &[], false), "");
        assert!(why(&session, &["shop:*"], false).contains("no program with events ran"));

        session.channels.remove(0);
        assert_eq!(why(&session, &[], false), "");
        session.channels[0].events = 0;
        assert!(why(&session, &[], false).contains("none of the enabled kernel events happened"));
    }

    #[test]
    fn no_event_has_a_reason() {
        let mut session = without_events();
        assert!(why(&session, &[], false).contains("no program with events ran"));
        assert!(why(&session, &[], true).contains("statically linked"));

        session.participants = vec![Participant {
            name: "a".into(),
            path: "/a".into(),
            processes: 1,
            matched: 0,
        }];
        assert!(why(&session, &["x:*"], false).contains("have no events at all"));
        session.unmatched_events = vec!["kitchen:oven".into(), "shop:order".into()];
        assert!(why(&session, &["shop:ordre"], false).contains("similar: shop:order ("));

        session.participants[0].matched = 1;
        assert!(why(&session, &[], false).contains("none of them happened"));
    }
}
