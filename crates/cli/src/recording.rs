// SPDX-License-Identifier: MIT OR Apache-2.0
//! The session of a recording: set up with a channel in each domain, started, ended.
//!
//! The kernel may be out of reach, for want of permission or of tracefs. Then the programs' events are recorded alone, and a
//! line says why.

use piste_control::interface::{Domain, ErrorKind, SessionStatus, VarlinkClient, VarlinkClientInterface};
use piste_control::{Client, Error, Places};

use crate::arguments::Record;
use crate::failure::Failure;
use crate::filtered::FilteredPattern;
use crate::kernel_rules::{self, Wanted};
use crate::screen::tell_sentence;
use crate::snapshot_triggers::SnapshotTriggers;
use crate::tracked;

/// What a helper says about the program it was loaded into: where its code lies, for looking up addresses later.
const STATE_DUMP_PATTERN: &str = "lttng_ust_statedump:*";
/// The programs' channel of a recording.
pub(crate) const USER_CHANNEL: &str = "default";
/// The kernel's channel of a recording.
pub(crate) const KERNEL_CHANNEL: &str = "kernel";

/// A session of a recording.
pub(crate) struct Recording {
    places: Places,
    session: String,
    /// Only programs with it take part; absent: all.
    record_id: Option<String>,
    kernel: KernelSide,
    triggers: Option<SnapshotTriggers>,
}

/// The kernel's part of a recording.
#[derive(Debug, Default)]
pub(crate) struct KernelSide {
    pub(crate) is_recorded: bool,
    /// Why not, where it was wanted.
    pub(crate) why_not: Option<String>,
    /// What presets have and this kernel has not: pattern and preset.
    pub(crate) lacking: Vec<(String, &'static str)>,
}

/// What is recorded, and of whom.
pub(crate) struct Subject<'a> {
    pub(crate) output: &'a str,
    /// 32 hex digits that only the recorded programs have in their environment.
    pub(crate) record_id: String,
    /// Every program takes part, with the record id or without.
    pub(crate) takes_everyone: bool,
    pub(crate) records_programs: bool,
}

impl Recording {
    /// Creates the session and its channels.
    ///
    /// # Errors
    /// pisted is not there or refused, or a probe's place is wrong. Nothing is left behind.
    pub(crate) fn create(
        places: Places,
        session: String,
        arguments: &Record,
        subject: &Subject,
    ) -> Result<Recording, Failure> {
        let wanted = kernel_rules::of_record(&arguments.kernel)?;
        let mut client = Client::connect_or_start(&places)?;
        let calls = client.calls();
        let snapshot = !arguments.snapshot_on.is_empty();
        let record_id = (!subject.takes_everyone).then(|| subject.record_id.clone());
        let (name, output) = (Some(session.clone()), Some(subject.output.into()));
        calls
            .create_session(name, output, snapshot, record_id.clone(), Some(true), Some(true))
            .call()?;
        let mut recording = Recording {
            places,
            session,
            record_id,
            kernel: KernelSide::default(),
            triggers: None,
        };
        match recording.set_up(calls, arguments, subject, wanted) {
            Ok(()) => Ok(recording),
            Err(failure) => {
                let _ = recording.destroy();
                Err(failure)
            }
        }
    }

    fn set_up(
        &mut self,
        calls: &mut VarlinkClient,
        arguments: &Record,
        subject: &Subject,
        wanted: Vec<Wanted>,
    ) -> Result<(), Failure> {
        if subject.records_programs {
            let request = arguments.channel.request(Domain::user, USER_CHANNEL.into());
            calls.enable_channel(self.session(), request).call()?;
            for group in patterns(arguments).chunk_by(|one, other| one.filter == other.filter) {
                let patterns = group.iter().map(|one| one.pattern.clone()).collect();
                let (channel, excluded) = (Some(USER_CHANNEL.into()), arguments.excluded.clone());
                let filter = group[0].filter.clone();
                calls
                    .enable_event(self.session(), channel, patterns, excluded, None, filter)
                    .call()?;
            }
        }
        if arguments.kernel.no_kernel {
            return Ok(());
        }
        match self.enable_kernel(calls, arguments, wanted) {
            Ok(()) => self.kernel.is_recorded = true,
            // Who records the whole system, and names no events of programs, means the kernel.
            Err(Error::Refused(kind))
                if subject.records_programs
                    && is_out_of_reach(&kind)
                    && !(arguments.all_system && arguments.user_patterns().is_empty()) =>
            {
                let sentence = Error::Refused(kind).to_string();
                tell_sentence(&format!("{sentence}; recording only the programs"));
                self.kernel.why_not = Some(sentence);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn enable_kernel(
        &mut self,
        calls: &mut VarlinkClient,
        arguments: &Record,
        wanted: Vec<Wanted>,
    ) -> Result<(), Error> {
        let request = arguments
            .kernel
            .rings
            .request(KERNEL_CHANNEL.into(), arguments.channel.memory);
        calls.enable_channel(self.session(), request).call()?;
        let enabled = kernel_rules::enable(calls, self.session(), Some(KERNEL_CHANNEL.into()), wanted)?;
        self.kernel.lacking = enabled.lacking;
        Ok(())
    }

    /// Starts recording the whole system, or these processes.
    pub(crate) fn start(&mut self, arguments: &Record, pids: &[u32]) -> Result<(), Error> {
        let mut client = Client::connect_or_start(&self.places)?;
        let tracked = arguments.kernel.tracked.tracked(pids, !pids.is_empty());
        if self.kernel.is_recorded && tracked::text(&tracked).is_some() {
            client.calls().track(self.session(), Domain::kernel, tracked).call()?;
        }
        if !arguments.pids.is_empty() && !arguments.user_patterns().is_empty() {
            let tracked = tracked::processes(&arguments.pids);
            client.calls().track(self.session(), Domain::user, tracked).call()?;
        }
        client.calls().start(self.session()).call()?;
        let events: Vec<FilteredPattern> = arguments.snapshot_events().cloned().collect();
        if !events.is_empty() {
            let triggers = SnapshotTriggers::add(&self.places, &self.session, self.record_id.as_ref(), &events)?;
            self.triggers = Some(triggers);
        }
        Ok(())
    }

    /// Takes no more snapshots on events. Those that have begun are complete when this returns.
    pub(crate) fn end_triggers(&mut self) {
        if let Some(triggers) = self.triggers.take() {
            triggers.end(&self.places);
        }
    }

    /// Ends the session. A pisted that was replaced, now or while it recorded, is asked again.
    pub(crate) fn destroy(&self) -> Result<SessionStatus, Error> {
        let attempt = || {
            let mut client = Client::connect_or_start(&self.places)?;
            let reply = client.calls().destroy_session(self.session()).call()?;
            Ok(reply.session)
        };
        match attempt() {
            Err(Error::Gone) => attempt(),
            result => result,
        }
    }

    /// What became of the kernel's part.
    pub(crate) fn kernel(&self) -> &KernelSide {
        &self.kernel
    }

    /// The same, at the end.
    pub(crate) fn into_kernel_side(self) -> KernelSide {
        self.kernel
    }

    fn session(&self) -> Option<String> {
        Some(self.session.clone())
    }
}

fn patterns(arguments: &Record) -> Vec<FilteredPattern> {
    let mut patterns = arguments.kernel.tracepoints.userspace.clone();
    let unfiltered = |pattern: &str| FilteredPattern {
        pattern: pattern.into(),
        filter: None,
    };
    if patterns.is_empty() {
        patterns.push(unfiltered("*"));
    } else if !arguments.preload.is_empty() {
        patterns.push(unfiltered(STATE_DUMP_PATTERN));
    }
    patterns
}

/// Whether a refusal means that this user, here, cannot trace the kernel at all.
fn is_out_of_reach(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoKernelDomain(_) | ErrorKind::NoPermission(_))
}
