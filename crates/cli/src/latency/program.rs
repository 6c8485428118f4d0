// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program as the loop: it is measured from one of its events to another one. A trigger of pisted watches for the first duration that is
//! longer than the limit, and takes the snapshot.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use piste_control::interface::{
    EventRule, TriggerAction, TriggerActionKind, TriggerCondition, TriggerMatch, VarlinkClientInterface,
};
use piste_control::{Client, Error, Places};
use serde_json::{Value, json};

use super::cause::Explained;
use super::flight::Flight;
use super::{LOOK, interruption};
use crate::arguments::Latency;
use crate::failure::{Failure, USAGE};
use crate::folder::TraceFolder;
use crate::page::Page;
use crate::quantity::duration;
use crate::screen::{printable, tell_sentence};

/// What is waited for.
struct Wanted<'a> {
    event: &'a str,
    end_event: &'a str,
    threshold: Duration,
}

/// The duration that was too long, and what became of its snapshot.
struct Seen {
    matched: TriggerMatch,
    snapshot: Result<String, String>,
}

/// `piste latency program`
pub(super) fn program(arguments: &Latency, json: bool) -> Result<(), Failure> {
    let wanted = wanted(arguments)?;
    let interrupted = interruption()?;
    let places = Places::for_commands()?;
    let folder = TraceFolder::of_output(arguments.output.as_deref())?;
    let mut events = vec![wanted.event.to_owned(), wanted.end_event.to_owned()];
    events.dedup();
    let mut flight = Flight::start(places.clone(), folder, events)?;
    let trigger = flight.session().to_owned();
    // Before there is the trigger, which acts only once.
    let notices = watch(&places, &trigger)?;
    let mut client = Client::connect_or_start(&places)?;
    client
        .calls()
        .add_trigger(
            Some(trigger.clone()),
            wanted.condition(),
            vec![TriggerAction {
                kind: TriggerActionKind::snapshot,
                session: flight.session().into(),
            }],
            None,
            Some(1),
            None,
            Some(true),
        )
        .call()
        .map_err(Error::from)?;
    if !json {
        tell_sentence(&format!("waiting for {wanted}; press Ctrl-C to stop"));
    }
    let end = arguments.duration.map(|duration| Instant::now() + duration);
    let seen = loop {
        match notices.recv_timeout(LOOK) {
            Ok(seen) => break Some(seen?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Gone.into()),
        }
        // Relaxed: nothing else is said by it.
        if interrupted.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
            break None;
        }
    };
    let _ = client.calls().remove_trigger(trigger).call();
    // A snapshot that had begun is complete now, and told.
    let seen = match seen {
        None => notices.recv_timeout(LOOK).ok().transpose()?,
        seen => seen,
    };
    let explained = seen.map(|seen| {
        if seen.snapshot.is_ok() {
            flight.keep_folder();
        }
        seen.explained(&wanted)
    });
    drop(flight);
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&json!({
            "loop": "program",
            "event": wanted.event,
            "end_event": wanted.end_event,
            "threshold_ns": wanted.threshold.as_nanos() as u64,
            "was_interrupted": interrupted.load(Ordering::Relaxed),
            "crossings": explained.iter().map(Explained::json).collect::<Vec<_>>(),
        }));
    }
    let text = match explained {
        Some(explained) => format!("stopped at the first of the {wanted}\n{}", explained.text(page.width())),
        None => format!("there were no {wanted}\n"),
    };
    page.show_sentences(&text)
}

fn wanted(arguments: &Latency) -> Result<Wanted<'_>, Failure> {
    let missing = |what: &str| {
        let sentence = format!(
            "{what} is missing; write for example `piste latency program --event shop:asked --end-event shop:answered --threshold 5ms`"
        );
        Failure::with_status(sentence, USAGE)
    };
    Ok(Wanted {
        event: arguments.event.as_deref().ok_or_else(|| missing("--event"))?,
        end_event: arguments.end_event.as_deref().ok_or_else(|| missing("--end-event"))?,
        threshold: arguments.threshold.ok_or_else(|| missing("--threshold"))?,
    })
}

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threshold = duration(i64::try_from(self.threshold.as_nanos()).unwrap_or(i64::MAX));
        let (event, end_event) = (printable(self.event), printable(self.end_event));
        write!(f, "durations of more than {threshold} from {event} to {end_event}")
    }
}

impl Wanted<'_> {
    fn condition(&self) -> TriggerCondition {
        let rule = |pattern: &str| EventRule {
            pattern: pattern.into(),
            excluded: vec![],
            levels: None,
            filter: None,
            enabled: true,
        };
        TriggerCondition {
            event: Some(rule(self.event)),
            kernel_event: None,
            session_event: None,
            end_event: Some(rule(self.end_event)),
            end_kernel_event: None,
            over_ns: Some(i64::try_from(self.threshold.as_nanos()).unwrap_or(i64::MAX)),
            by: None,
            overdue: None,
            contexts: None,
        }
    }
}

/// Sends what the trigger has matched, once its snapshot is there.
fn watch(places: &Places, trigger: &str) -> Result<Receiver<Result<Seen, Error>>, Error> {
    let mut client = Client::connect_or_start(places)?;
    let trigger = trigger.to_owned();
    let (to, seen) = channel();
    let (ready_to, ready) = channel();
    thread::spawn(move || {
        // To all, since this one is not there yet.
        let mut notices = client.calls().listen(vec![]);
        let asked = notices.more().map(drop).map_err(Error::from);
        let first = asked.and_then(|()| match notices.next() {
            Some(first) => first.map(drop).map_err(Error::from),
            None => Err(Error::Gone),
        });
        // From the first reply on, none is missed.
        let goes_on = first.is_ok();
        let _ = ready_to.send(first);
        if !goes_on {
            return;
        }
        let mut matched = None;
        for notice in notices {
            let notice = match notice {
                Ok(notice) => notice,
                Err(error) => {
                    let _ = to.send(Err(error.into()));
                    return;
                }
            };
            if notice.trigger.as_ref() != Some(&trigger) {
                continue;
            }
            matched = notice.matched.or(matched);
            if let Some(outcome) = notice.outcome
                && let Some(matched) = matched.take()
            {
                let snapshot = match (outcome.output, outcome.error) {
                    (Some(output), _) => Ok(output),
                    (None, error) => Err(error.unwrap_or_default()),
                };
                let _ = to.send(Ok(Seen { matched, snapshot }));
                return;
            }
        }
    });
    ready.recv().unwrap_or(Err(Error::Gone))?;
    Ok(seen)
}

impl Seen {
    fn explained(&self, wanted: &Wanted) -> Explained {
        let matched = &self.matched;
        let context = |name: &str| matched.contexts.get(name);
        let vtid = context("vtid").and_then(Value::as_i64).unwrap_or(-1);
        let tid = matched.pid.and_then(|pid| tid_here(pid, vtid)).unwrap_or(vtid);
        let name = context("procname").and_then(Value::as_str).unwrap_or("?");
        let what = format!(
            "from {} to {}, thread {tid} of {name} ({})",
            wanted.event,
            wanted.end_event,
            matched.pid.unwrap_or(-1)
        );
        let snapshot = self.snapshot.as_deref().map(Path::new).map_err(String::clone);
        Explained::of_program(
            what,
            i32::try_from(tid).unwrap_or(-1),
            Duration::from_nanos(matched.duration_ns.unwrap_or(0).unsigned_abs()),
            matched.time_ns,
            snapshot,
        )
    }
}

/// The ID that the kernel's events have of a thread, which has another one in its container.
fn tid_here(pid: i64, vtid: i64) -> Option<i64> {
    let is_it = |status: &str| {
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let innermost = ids.and_then(|ids| ids.split_whitespace().last());
        innermost.and_then(|id| id.parse().ok()) == Some(vtid)
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut tasks = tasks.flatten();
    let task = tasks.find(|task| fs::read_to_string(task.path().join("status")).is_ok_and(|status| is_it(&status)))?;
    task.file_name().to_str()?.parse().ok()
}
