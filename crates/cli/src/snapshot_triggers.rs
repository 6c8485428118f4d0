// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of a recording on events of programs: a trigger for each event. They end with the recording, whatever becomes of this process.

use std::thread::{self, JoinHandle};

use piste_control::interface::{
    EventRule, TriggerAction, TriggerActionKind, TriggerCondition, VarlinkClient, VarlinkClientInterface,
};
use piste_control::{Client, Error, Places};

use crate::filtered::FilteredPattern;
use crate::quantity::counted;
use crate::screen::{STRONG, printable, styled, tell_sentence};

/// The triggers of a recording, and the thread that tells of their snapshots.
pub(crate) struct SnapshotTriggers {
    names: Vec<String>,
    listener: JoinHandle<()>,
}

impl SnapshotTriggers {
    /// Adds a trigger for each event, for the programs with the record id, or all.
    ///
    /// # Errors
    /// pisted refused one. None is left then.
    pub(crate) fn add(
        places: &Places,
        session: &str,
        record_id: Option<&String>,
        events: &[FilteredPattern],
    ) -> Result<SnapshotTriggers, Error> {
        let mut client = Client::connect_or_start(places)?;
        let mut names = Vec::new();
        for (number, event) in (1..).zip(events) {
            let name = format!("{session}-{number}");
            let action = TriggerAction {
                kind: TriggerActionKind::snapshot,
                session: session.into(),
            };
            let (actions, record_id) = (vec![action], record_id.cloned());
            let added = client
                .calls()
                .add_trigger(
                    Some(name.clone()),
                    condition(event),
                    actions,
                    None,
                    None,
                    record_id,
                    Some(true),
                )
                .call();
            if let Err(error) = added {
                remove(client.calls(), &names);
                return Err(error.into());
            }
            names.push(name);
        }
        let listener = Client::connect_or_start(places).and_then(|listening| listen(listening, names.clone()));
        let listener = listener.inspect_err(|_| {
            remove(client.calls(), &names);
        })?;
        Ok(SnapshotTriggers { names, listener })
    }

    /// Removes them. The snapshots that they have begun are complete, and told, when this returns.
    pub(crate) fn end(self, places: &Places) {
        if let Ok(mut client) = Client::connect_or_start(places) {
            // It ends with the last of them.
            if remove(client.calls(), &self.names) {
                let _ = self.listener.join();
            }
        }
    }
}

fn condition(event: &FilteredPattern) -> TriggerCondition {
    TriggerCondition {
        event: Some(EventRule {
            pattern: event.pattern.clone(),
            excluded: vec![],
            levels: None,
            filter: event.filter.clone(),
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
    }
}

/// True when all of them are gone.
fn remove(calls: &mut VarlinkClient, names: &[String]) -> bool {
    let mut are_gone = true;
    for name in names {
        match calls.remove_trigger(name.clone()).call() {
            Ok(last) if last.trigger.missed > 0 => tell_sentence(&format!(
                "{} came too fast to be checked, so a snapshot may be missing",
                counted(last.trigger.missed, "event")
            )),
            Ok(_) => {}
            Err(error) => {
                tell_sentence(&Error::from(error).to_string());
                are_gone = false;
            }
        }
    }
    are_gone
}

/// Tells of snapshots until the triggers are removed.
fn listen(mut client: Client, names: Vec<String>) -> Result<JoinHandle<()>, Error> {
    let mut notices = client.calls().listen(names);
    notices.more()?;
    // From the first reply on, none is missed.
    if let Some(first) = notices.next() {
        first?;
    }
    Ok(thread::spawn(move || {
        let mut event = String::new();
        for notice in notices.map_while(Result::ok) {
            if let Some(matched) = notice.matched {
                event = matched.event;
            }
            let Some(outcome) = notice.outcome else { continue };
            match (outcome.output, outcome.error) {
                (Some(output), _) => tell_sentence(&format!(
                    "snapshot on {}: in {}",
                    printable(&event),
                    styled(STRONG, printable(&output))
                )),
                (None, Some(error)) => {
                    tell_sentence(&format!("no snapshot was taken on {}: {error}", printable(&event)))
                }
                (None, None) => {}
            }
        }
    }))
}
