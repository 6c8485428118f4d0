// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trigger does with sessions: `--snapshot`, `--start`, `--stop` and `--rotate`, in the order of the command line.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use piste_control::interface::{SessionStatus, TriggerAction, TriggerActionKind};
use piste_patterns::nearest;

use crate::screen::printable;

/// Actions in the order of the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OrderedActions {
    pub(crate) actions: Vec<TriggerAction>,
}

/// The options as clap knows them: without their order.
#[derive(Args)]
#[command(next_help_heading = "Action options")]
struct Given {
    /// Write a snapshot of SESSION, which was created with --snapshot
    #[arg(long, value_name = "SESSION", value_delimiter = ',')]
    snapshot: Vec<String>,
    /// Start SESSION
    #[arg(long, value_name = "SESSION", value_delimiter = ',')]
    start: Vec<String>,
    /// Stop SESSION
    #[arg(long, value_name = "SESSION", value_delimiter = ',')]
    stop: Vec<String>,
    /// Rotate SESSION: turn what it recorded so far into a separate trace
    #[arg(long, value_name = "SESSION", value_delimiter = ',')]
    rotate: Vec<String>,
}

impl FromArgMatches for OrderedActions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OrderedActions, Error> {
        let Given {
            snapshot,
            start,
            stop,
            rotate,
        } = Given::from_arg_matches(matches)?;
        let mut indexed: Vec<(usize, TriggerAction)> = vec![];
        for (kind, sessions) in [
            (TriggerActionKind::snapshot, snapshot),
            (TriggerActionKind::start, start),
            (TriggerActionKind::stop, stop),
            (TriggerActionKind::rotate, rotate),
        ] {
            let indices = matches.indices_of(name(&kind)).into_iter().flatten();
            let of_kind = sessions.into_iter().map(|session| TriggerAction {
                kind: kind.clone(),
                session,
            });
            indexed.extend(indices.zip(of_kind));
        }
        indexed.sort_by_key(|(index, _)| *index);
        let actions = indexed.into_iter().map(|(_, action)| action).collect();
        Ok(OrderedActions { actions })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = OrderedActions::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for OrderedActions {
    fn augment_args(command: Command) -> Command {
        Given::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::augment_args_for_update(command)
    }
}

/// As the option and the command have it.
pub(super) fn name(kind: &TriggerActionKind) -> &'static str {
    match kind {
        TriggerActionKind::snapshot => "snapshot",
        TriggerActionKind::start => "start",
        TriggerActionKind::stop => "stop",
        TriggerActionKind::rotate => "rotate",
    }
}

/// `snapshot web`
pub(super) fn text(action: &TriggerAction) -> String {
    format!("{} {}", name(&action.kind), printable(&action.session))
}

/// `snapshot web, then stop web`
pub(super) fn sentence(actions: &[TriggerAction]) -> String {
    actions.iter().map(text).collect::<Vec<_>>().join(", then ")
}

/// What would go wrong with the sessions that there are now: some may come later, some names are typing errors.
pub(super) fn session_notes(actions: &[TriggerAction], sessions: &[SessionStatus]) -> Vec<String> {
    let mut notes = vec![];
    for TriggerAction { kind, session: name } in actions {
        let shown = printable(name);
        let note = match sessions.iter().find(|session| session.name == *name) {
            None => {
                let names = sessions.iter().map(|session| session.name.as_str());
                let similar = match nearest(name, names, 3).as_slice() {
                    [] => String::new(),
                    near => format!("; similar: {}", printable(&near.join(", "))),
                };
                format!("note: there is no session {shown} yet{similar}")
            }
            Some(session) if session.snapshot && *kind == TriggerActionKind::rotate => {
                format!(
                    "note: session {shown} keeps its events in memory and cannot be rotated; use --snapshot {shown}"
                )
            }
            Some(session) if !session.snapshot && *kind == TriggerActionKind::snapshot => {
                format!(
                    "note: session {shown} writes its trace continuously and has no snapshots; use --rotate {shown}"
                )
            }
            Some(_) => continue,
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::summary::tests::session;
    use crate::trigger::tests::action;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        actions: OrderedActions,
    }

    #[test]
    fn actions_keep_the_order_of_the_command_line() {
        for (line, expected) in [
            ("", ""),
            ("--snapshot web", "snapshot web"),
            ("--stop a --snapshot b --stop c", "stop a, then snapshot b, then stop c"),
            (
                "--rotate a,b --start c --rotate d",
                "rotate a, then rotate b, then start c, then rotate d",
            ),
        ] {
            let words = ["name"].into_iter().chain(line.split_whitespace());
            let seen = Line::try_parse_from(words).unwrap().actions;
            assert_eq!(sentence(&seen.actions), expected, "{line}");
        }
    }

    #[test]
    fn sessions_that_do_not_fit_are_told() {
        let mut flight = session();
        (flight.name, flight.snapshot) = ("flight".into(), true);
        let sessions = [session(), flight];
        let notes = |kind, name: &str| session_notes(&[action(kind, name)], &sessions);
        assert!(notes(TriggerActionKind::stop, "web").is_empty());
        assert!(notes(TriggerActionKind::snapshot, "flight").is_empty());
        assert_eq!(
            notes(TriggerActionKind::start, "wbe"),
            ["note: there is no session wbe yet; similar: web"]
        );
        assert_eq!(
            notes(TriggerActionKind::snapshot, "web"),
            ["note: session web writes its trace continuously and has no snapshots; use --rotate web"]
        );
        assert_eq!(
            notes(TriggerActionKind::rotate, "flight"),
            ["note: session flight keeps its events in memory and cannot be rotated; use --snapshot flight"]
        );
    }
}
