// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers: `piste add-trigger`, `list-triggers`, `remove-trigger` and `listen`. pisted waits for the events and acts on them.
//!
//! - [`condition`]: what a trigger waits for
//! - [`actions`]: what it does
//! - [`table`]: all triggers, and what became of each
//! - [`listening`]: the notices as they come
//! - [`notice`]: a notice as a line of text and as JSON
//! - [`running`]: a command for each match

mod actions;
mod condition;
mod listening;
mod notice;
mod running;
mod table;

use piste_control::client::programs;
use piste_control::interface::{ErrorKind, NoTrigger_Args, TriggerStatus, VarlinkClientInterface};
use piste_control::{Client, Error};
use piste_patterns::nearest;
use serde_json::json;

pub(crate) use self::actions::OrderedActions;
pub(crate) use self::listening::listen;
use crate::arguments::{AddTrigger, ListTriggers, RemoveTrigger};
use crate::channels::for_each;
use crate::failure::Failure;
use crate::json::of_pisted;
use crate::page::Page;
use crate::quantity::{count, counted};
use crate::rules::doubt;
use crate::screen::{FAINT, STRONG, printable, show, show_json, styled, tell_sentence};
use crate::session::connect;

/// `piste add-trigger`
pub(crate) fn add(arguments: &AddTrigger, json: bool) -> Result<(), Failure> {
    let condition = condition::of(&arguments.condition)?;
    let pattern = condition.event.as_ref().map(|rule| rule.pattern.clone());
    let mut client = connect()?;
    let trigger = client
        .calls()
        .add_trigger(
            arguments.name.clone(),
            condition,
            arguments.actions.actions.clone(),
            arguments.per_second,
            arguments.at_most,
            None,
            None,
        )
        .call()?
        .trigger;
    if json {
        return show_json(&of_pisted(&trigger)?);
    }
    show(&added(&trigger))?;
    if !trigger.actions.is_empty() {
        let sessions = client.calls().list_sessions().call()?.sessions;
        let notes = actions::session_notes(&trigger.actions, &sessions);
        notes.iter().for_each(|note| tell_sentence(note));
    }
    if let Some(pattern) = pattern {
        let doubt = doubt(&pattern, &programs(client.calls())?);
        doubt.iter().for_each(|doubt| tell_sentence(doubt));
    }
    Ok(())
}

/// What the new trigger waits for and does.
fn added(trigger: &TriggerStatus) -> String {
    let mut text = format!("added trigger {}\n", name_of(trigger));
    text += &labelled("waits for", &condition::text(&trigger.condition));
    let does = match trigger.actions.is_empty() {
        true => "only counts matches, and notifies those who listen".to_owned(),
        false => actions::sentence(&trigger.actions),
    };
    text += &labelled("does", &does);
    let at_most = match trigger.at_most {
        Some(times) => format!(", {} in all", counted(times, "time")),
        None => String::new(),
    };
    let per_second = counted(trigger.per_second, "time");
    text += &labelled("at most", &format!("{per_second} a second{at_most}"));
    if trigger.actions.is_empty() {
        text += &labelled("next", &format!("piste listen {}", printable(&trigger.name)));
    }
    text
}

/// `piste list-triggers`
pub(crate) fn list(arguments: &ListTriggers, json: bool) -> Result<(), Failure> {
    let page = Page::new(&arguments.page);
    let triggers = connect()?.calls().list_triggers().call()?.triggers;
    match json {
        true => page.show_json(&json!({ "triggers": of_pisted(&triggers)? })),
        false => page.show(&table::text(&triggers, page.width(), &jiff::Zoned::now())),
    }
}

/// `piste remove-trigger`
pub(crate) fn remove(arguments: &RemoveTrigger, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    check_exist(&mut client, &arguments.names)?;
    let removed = for_each(&arguments.names, |name| {
        Ok(client.calls().remove_trigger(name.clone()).call()?.trigger)
    })?;
    match &removed[..] {
        [trigger] if json => show_json(&of_pisted(trigger)?),
        several if json => show_json(&json!({ "triggers": of_pisted(&several)? })),
        triggers => show(&triggers.iter().map(removed_text).collect::<String>()),
    }
}

/// Refuses several triggers of which one does not exist, before any of them is removed.
fn check_exist(client: &mut Client, names: &[String]) -> Result<(), Failure> {
    if names.len() < 2 {
        return Ok(());
    }
    let triggers = client.calls().list_triggers().call()?.triggers;
    let known = || triggers.iter().map(|trigger| trigger.name.as_str());
    let Some(unknown) = names.iter().find(|name| !known().any(|known| known == *name)) else {
        return Ok(());
    };
    let no_trigger = NoTrigger_Args {
        name: unknown.clone(),
        nearest: nearest(unknown, known(), 3),
    };
    Err(Error::Refused(Box::new(ErrorKind::NoTrigger(Some(no_trigger)))).into())
}

/// `removed late: 1,204 matches, acted 10 times`, and what went wrong.
fn removed_text(trigger: &TriggerStatus) -> String {
    format!(
        "removed {}: {}, acted {}\n{}",
        name_of(trigger),
        match trigger.matched {
            1 => "1 match".into(),
            matched => format!("{} matches", count(matched)),
        },
        counted(trigger.acted, "time"),
        table::faults(trigger, "  ")
    )
}

fn name_of(trigger: &TriggerStatus) -> String {
    styled(STRONG, printable(&trigger.name))
}

fn labelled(label: &str, text: &str) -> String {
    format!("  {}{text}\n", styled(FAINT, format!("{label:<11}")))
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use piste_control::interface::{EventRule, Finding, TriggerAction, TriggerActionKind, TriggerCondition};

    use super::*;

    pub(super) fn action(kind: TriggerActionKind, session: &str) -> TriggerAction {
        TriggerAction {
            kind,
            session: session.into(),
        }
    }

    pub(super) fn trigger(name: &str) -> TriggerStatus {
        TriggerStatus {
            name: name.into(),
            uid: 1000,
            user: "ada".into(),
            condition: TriggerCondition {
                event: Some(EventRule {
                    pattern: "shop:order".into(),
                    excluded: vec![],
                    levels: None,
                    filter: Some("price > 1000".into()),
                    enabled: true,
                }),
                kernel_event: None,
                session_event: None,
                end_event: None,
                end_kernel_event: None,
                over_ns: None,
                overdue: None,
                by: None,
                contexts: None,
            },
            actions: vec![
                action(TriggerActionKind::snapshot, "web"),
                action(TriggerActionKind::stop, "web"),
            ],
            per_second: 10,
            at_most: None,
            matched: 1204,
            acted: 10,
            missed: 0,
            last_ns: None,
            findings: vec![],
        }
    }

    fn seen(text: &str) -> String {
        strip_str(text).to_string()
    }

    #[test]
    fn a_new_trigger_says_what_it_waits_for_and_does() {
        let mut trigger = trigger("late");
        assert_eq!(
            seen(&added(&trigger)),
            "\
added trigger late
  waits for  shop:order, where price > 1000
  does       snapshot web, then stop web
  at most    10 times a second
"
        );
        trigger.actions.clear();
        (trigger.per_second, trigger.at_most) = (1, Some(3));
        trigger.condition.contexts = Some(vec!["vpid".into(), "prio".into()]);
        assert_eq!(
            seen(&added(&trigger)),
            "\
added trigger late
  waits for  shop:order, where price > 1000, with vpid, prio
  does       only counts matches, and notifies those who listen
  at most    1 time a second, 3 times in all
  next       piste listen late
"
        );
    }

    #[test]
    fn a_removed_trigger_says_what_it_counted_and_what_went_wrong() {
        let mut trigger = trigger("late");
        assert_eq!(
            seen(&removed_text(&trigger)),
            "removed late: 1,204 matches, acted 10 times\n"
        );
        (trigger.matched, trigger.acted, trigger.missed) = (1, 1, 7);
        trigger.findings.push(Finding {
            what: "cannot stop session web: it is not recording".into(),
            count: 2,
        });
        assert_eq!(
            seen(&removed_text(&trigger)),
            "\
removed late: 1 match, acted 1 time
  7 events came too fast to be checked; some of them may have matched
  cannot stop session web: it is not recording (2 times)
"
        );
    }
}
