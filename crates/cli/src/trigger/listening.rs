// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste listen`: prints what triggers report as it comes. One thread reads from pisted, one waits for Ctrl-C; what happened to either comes
//! to the main thread, which prints. While that is busy nothing is read, and pisted counts what it skips.

use std::io;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use jiff::tz::TimeZone;
use piste_control::interface::{Listen_Reply, TriggerMatch, VarlinkClientInterface};
use piste_control::{Client, Error};
use piste_reason::reason;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::notice::{Notice, match_line, outcome_line, skipped_line};
use super::running;
use crate::arguments::Listen;
use crate::child::not_ignored;
use crate::failure::{Failure, INTERRUPTED};
use crate::screen::{printable, show, tell_sentence};
use crate::session::connect;

/// What the main thread waits for.
enum News {
    Reply(Box<Listen_Reply>),
    /// No more replies come.
    Ended(Error),
    Interrupted,
}

/// `piste listen`
pub(crate) fn listen(arguments: &Listen, json: bool) -> Result<(), Failure> {
    let client = connect()?;
    // It has room for one: a signal that finds it full finds the main thread awake.
    let (to, from) = sync_channel(1);
    let interrupted =
        interruption(to.clone()).map_err(|error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    let names = arguments.names.clone();
    thread::spawn(move || read(client, names, &to));
    let mut listener = Listener {
        arguments,
        json,
        zone: TimeZone::system(),
        matches_left: arguments.count,
        interrupted: &interrupted,
    };
    let mut is_listening = false;
    for news in from {
        // Relaxed: nothing else is said by it.
        if interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        match news {
            News::Interrupted => return Ok(()),
            News::Ended(Error::Gone) if is_listening => {
                return Err(Failure::new(
                    "pisted has ended, so no more notices will arrive; run `piste listen` again when pisted is running (its messages are in pisted.log in the run folder)",
                ));
            }
            News::Ended(error) => return Err(error.into()),
            News::Reply(reply) => {
                if !is_listening {
                    is_listening = true;
                    listener.began();
                }
                listener.notice(&reply)?;
                if let (Some(trigger), None, None) = (&reply.trigger, &reply.matched, &reply.outcome) {
                    listener.removed(trigger);
                    return Ok(());
                }
            }
        }
        if listener.matches_left == Some(0) {
            return Ok(());
        }
    }
    Ok(())
}

/// Hands on all replies, and why they end.
fn read(mut client: Client, names: Vec<String>, to: &SyncSender<News>) {
    let mut call = client.calls().listen(names);
    let replies = match call.more() {
        Ok(replies) => replies,
        Err(error) => return drop(to.send(News::Ended(error.into()))),
    };
    for reply in replies {
        let news = match reply {
            Ok(reply) => News::Reply(Box::new(reply)),
            Err(error) => News::Ended(error.into()),
        };
        // After its end, the main thread needs no more of them.
        let is_over = matches!(news, News::Ended(_));
        if to.send(news).is_err() || is_over {
            return;
        }
    }
    let _ = to.send(News::Ended(Error::Gone));
}

/// From now on, Ctrl-C and SIGTERM set what is returned and wake the main thread; the second one ends piste at once.
fn interruption(to: SyncSender<News>) -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let of_thread = Arc::clone(&interrupted);
    let mut signals = Signals::new(not_ignored([SIGINT, SIGTERM])?)?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if of_thread.swap(true, Ordering::Relaxed) {
                exit(INTERRUPTED.into());
            }
            let _ = to.try_send(News::Interrupted);
        }
    })?;
    Ok(interrupted)
}

/// Prints notices.
struct Listener<'l> {
    arguments: &'l Listen,
    json: bool,
    zone: TimeZone,
    /// Until it ends; absent: it does not.
    matches_left: Option<u64>,
    interrupted: &'l AtomicBool,
}

impl Listener<'_> {
    /// Everything from now on is reported.
    fn began(&self) {
        if self.arguments.quiet {
            return;
        }
        let names = match self.arguments.names.is_empty() {
            true => "all triggers".into(),
            false => self.arguments.names.join(", "),
        };
        tell_sentence(&format!("listening to {}; press Ctrl-C to stop", printable(&names)));
    }

    /// The last trigger that it listens to is gone.
    fn removed(&self, trigger: &str) {
        if !self.arguments.quiet {
            tell_sentence(&format!(
                "trigger {} was removed; listening has ended",
                printable(trigger)
            ));
        }
    }

    fn notice(&mut self, reply: &Listen_Reply) -> Result<(), Failure> {
        let trigger = reply.trigger.as_deref().unwrap_or_default();
        match (reply.skipped, self.json) {
            (..=0, _) => {}
            (count, true) => show(&json_line(&Notice::Skipped { count })?)?,
            (count, false) => tell_sentence(&skipped_line(count)),
        }
        if let Some(matched) = &reply.matched {
            self.matched(trigger, matched)?;
        }
        if let Some(outcome) = &reply.outcome {
            show(&match self.json {
                true => json_line(&Notice::of_outcome(trigger, outcome))?,
                false => outcome_line(trigger, outcome) + "\n",
            })?;
        }
        Ok(())
    }

    fn matched(&mut self, trigger: &str, matched: &TriggerMatch) -> Result<(), Failure> {
        let notice = json_line(&Notice::of_match(trigger, matched))?;
        match self.json {
            true => show(&notice)?,
            false => show(&(match_line(trigger, matched, &self.zone) + "\n"))?,
        }
        if let Some(command) = &self.arguments.run {
            let ran = running::run(command, trigger, &matched.event, &notice);
            // Ctrl-C on a terminal ends the command, too.
            if let Err(complaint) = ran
                && !self.interrupted.load(Ordering::Relaxed)
            {
                let of = format!("match {} of {}", matched.number, printable(trigger));
                tell_sentence(&format!("{of}: {complaint}"));
            }
        }
        self.matches_left = self.matches_left.map(|left| left - 1);
        Ok(())
    }
}

fn json_line(notice: &Notice<'_>) -> Result<String, Failure> {
    Ok(serde_json::to_string(notice).map_err(io::Error::from)? + "\n")
}
