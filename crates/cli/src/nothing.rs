// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a recording has no events.

use piste_control::interface::SessionStatus;

use crate::nearest::nearest;
use crate::screen::printable;

/// What the user asked to record.
pub(crate) struct Wanted<'a> {
    pub(crate) patterns: &'a [String],
    pub(crate) preloaded: bool,
}

/// The most likely reason.
pub(crate) fn reason(status: &SessionStatus, wanted: &Wanted) -> String {
    let nobody = status.participants.is_empty();
    if nobody && wanted.preloaded {
        return "no helper was loaded; is the program linked statically, set-user-ID, or without an instrumented function?".into();
    }
    if nobody {
        return "no program with events ran; record what any program does with `--preload libc` (or pthread, dl)"
            .into();
    }
    if status.participants.iter().any(|participant| participant.matched > 0) {
        return "programs have the wanted events, but did not come past any of them".into();
    }
    if wanted.patterns.is_empty() {
        return "the programs that ran have no events".into();
    }
    let known = || status.unmatched_events.iter().map(String::as_str);
    let patterns = wanted.patterns.join(", ");
    let mut near: Vec<&str> = wanted
        .patterns
        .iter()
        .flat_map(|pattern| nearest(pattern, known(), 3))
        .collect();
    near.dedup();
    if near.is_empty() {
        near = known().take(3).collect();
    }
    match near.as_slice() {
        [] => format!("no event matches {patterns}; the programs that ran have none at all"),
        near => format!(
            "no event matches {patterns}; near are {} (all: `piste list` while it runs)",
            printable(&near.join(", "))
        ),
    }
}

#[cfg(test)]
mod tests {
    use piste_control::interface::Participant;

    use super::*;
    use crate::summary::recorded;
    use crate::summary::tests::{seen, session};

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
        ));
        lines.lines().last().unwrap_or_default().trim().to_owned()
    }

    #[test]
    fn no_event_has_a_reason() {
        let mut session = without_events();
        assert!(why(&session, &[], false).contains("no program with events ran"));
        assert!(why(&session, &[], true).contains("linked statically"));

        session.participants = vec![Participant {
            name: "a".into(),
            path: "/a".into(),
            processes: 1,
            matched: 0,
        }];
        assert!(why(&session, &["x:*"], false).contains("have none at all"));
        session.unmatched_events = vec!["kitchen:oven".into(), "shop:order".into()];
        assert!(why(&session, &["shop:ordre"], false).contains("near are shop:order ("));

        session.participants[0].matched = 1;
        assert!(why(&session, &[], false).contains("did not come past"));
    }
}
