// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state as the control interface shows it.

use std::collections::BTreeSet;

use piste_control::interface as shown;
use piste_kernel::{spec, state_dump};

use super::{host, kernel_words, tracked_words};
use crate::link::{ChannelTotals, Domain, Finding, Loss, SessionId};
use crate::person::Person;
use crate::session::machine::Machine;
use crate::session::rules::Rule;
use crate::session::{ChannelSettings, Moment, ProgramId, SessionState};

/// Executables that a status names.
const PARTICIPANT_COUNT_MAX: usize = 256;
/// Unmatched events that a status names.
const UNMATCHED_EVENT_COUNT_MAX: usize = 100;

/// The totals of a session's channels, as its consumers stated them.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the domains")]
pub struct Totals<'a> {
    pub user: &'a [ChannelTotals],
    pub kernel: &'a [ChannelTotals],
}

/// A session, with the totals that the consumers stated.
pub fn session(machine: &Machine, id: SessionId, totals: Totals<'_>, now: Moment, by: &Person) -> shown::SessionStatus {
    let session = machine.session(id);
    let identity = &session.identity;
    let notes = machine.notes(id);
    let of = |totals: &[ChannelTotals], stream_id| {
        let found = totals.iter().find(|totals| totals.stream_id == stream_id);
        found.cloned().unwrap_or_default()
    };
    let user_channels = session.current_channels().map(|(channel_id, state)| {
        let mut sum = ChannelTotals::of(channel_id);
        // Its own, and those of the channels that it replaced.
        for (stream_id, state) in (0..).zip(&session.channels) {
            if session.latest(stream_id) == channel_id {
                let totals = of(totals.user, stream_id);
                sum.add(&totals);
                sum.findings.extend(totals.findings);
                // At least one packet of each: how many there were, nobody knows.
                sum.lost_packets += state.lost_ring_set_count;
            }
        }
        channel(
            settings(&state.settings),
            state.enabled,
            Rules::User(&state.rules),
            sum,
            identity.snapshot,
        )
    });
    let kernel_channels = session.kernel.channels.iter().map(|spec| {
        let totals = of(totals.kernel, spec.stream_id);
        let rules = Rules::Kernel(&spec.rules);
        let enabled = session.kernel.is_enabled(spec.stream_id);
        channel(kernel_words::settings(spec), enabled, rules, totals, identity.snapshot)
    });
    let dumped = totals
        .kernel
        .iter()
        .find(|totals| totals.stream_id == state_dump::STREAM_ID);
    let ring_sets = machine
        .sessions()
        .ring_sets()
        .filter(|(key, set)| set.session == id && machine.is_alive(*key) && !machine.is_left_out(set.program, id));
    let attached: BTreeSet<ProgramId> = ring_sets.map(|(_, ring_set)| ring_set.program).collect();
    let channels: Vec<shown::ChannelStatus> = user_channels.chain(kernel_channels).collect();
    // The consumer tells a finding of a channel when it is new, and counts it in the totals.
    let mut own_findings = findings(&notes.map_or_else(Vec::new, |notes| notes.findings.list()));
    let of_filters = notes.into_iter().flat_map(|notes| notes.filters.findings());
    own_findings.extend(of_filters.map(|what| shown::Finding { what, count: 1 }));
    own_findings.retain(|own| {
        let mut of_channels = channels.iter().flat_map(|channel| &channel.findings);
        !of_channels.any(|finding| finding.what == own.what)
    });
    shown::SessionStatus {
        name: identity.name.clone(),
        id: host::hex(identity.trace.uuid),
        state: match session.state {
            SessionState::Inactive => shown::SessionState::inactive,
            SessionState::Active => shown::SessionState::active,
            SessionState::Stopped | SessionState::Closing => shown::SessionState::stopped,
        },
        current: machine.sessions().current(by) == Some(id),
        output: identity.output.to_string_lossy().into_owned(),
        snapshot: identity.snapshot,
        record_id: identity.record_id.map(host::hex),
        started_ns: session.first_start.map(|moment| count(moment.wall_ns)),
        duration_ns: count(session.recorded_ns(now)),
        snapshots: count(session.snapshot_count),
        chunks: count(session.chunks.count),
        tracked: tracked_words::shown(&session.tracked),
        kernel_tracked: tracked_words::shown(&session.kernel.tracked),
        channels,
        state_dump: dumped.map(|totals| shown::StateDumpStatus {
            events: count(totals.events),
            packets: count(totals.packets),
            bytes: count(totals.bytes),
        }),
        programs: count(attached.len()),
        participants: notes.map_or_else(Vec::new, |notes| {
            let list = notes.participants.list(PARTICIPANT_COUNT_MAX);
            let participant =
                |(name, path, processes): (&str, &str, crate::session::participants::Processes)| shown::Participant {
                    name: name.into(),
                    path: path.into(),
                    processes: count(processes.count),
                    matched: count(processes.matched_count),
                };
            list.into_iter().map(participant).collect()
        }),
        programs_left_out: count(notes.map_or(0, |notes| notes.left_out_count)),
        unmatched_events: notes.map_or_else(Vec::new, |notes| {
            // Rules may have come since an event was seen.
            let is_matched = |event: &str| session.channels.iter().any(|channel| channel.names(event));
            let events = notes.participants.unmatched_events().filter(|event| !is_matched(event));
            events.take(UNMATCHED_EVENT_COUNT_MAX).map(str::to_owned).collect()
        }),
        programs_not_recorded: count(session.programs_not_recorded),
        findings: own_findings,
    }
}

enum Rules<'a> {
    User(&'a [Rule]),
    Kernel(&'a [spec::Rule]),
}

fn channel(
    settings: shown::ChannelSettings,
    enabled: bool,
    rules: Rules<'_>,
    totals: ChannelTotals,
    snapshot: bool,
) -> shown::ChannelStatus {
    let (rules, kernel_rules) = match rules {
        Rules::User(rules) => (self::rules(rules), Vec::new()),
        Rules::Kernel(rules) => (Vec::new(), kernel_words::rules(rules)),
    };
    let overwritten = if snapshot { 0 } else { totals.overwritten_events };
    shown::ChannelStatus {
        settings,
        enabled,
        rules,
        kernel_rules,
        events: count(totals.events),
        packets: count(totals.packets),
        bytes: count(totals.bytes),
        discarded_events: count(
            totals.discarded_full + totals.discarded_too_large + totals.discarded_late + overwritten,
        ),
        lost_packets: count(totals.lost_packets),
        losses: shown::Losses {
            discarded_full: count(totals.discarded_full),
            discarded_too_large: count(totals.discarded_too_large),
            discarded_late: count(totals.discarded_late),
            overwritten: count(totals.overwritten_events),
            lost_packets: count(totals.lost_packets),
        },
        fullest_percent: totals.fill.map(|fill| fill.most_percent.into()),
        findings: findings(&totals.findings),
    }
}

/// A channel's settings.
pub fn settings(settings: &ChannelSettings) -> shown::ChannelSettings {
    let geometry = &settings.geometry;
    shown::ChannelSettings {
        name: settings.name.clone(),
        domain: shown::Domain::user,
        loss: loss(geometry.loss),
        block_timeout_us: (geometry.loss == Loss::Block && geometry.block_timeout_us != u32::MAX)
            .then_some(geometry.block_timeout_us.into()),
        subbuf_bytes: geometry.subbuf_bytes.into(),
        subbuf_count: geometry.subbuf_count.into(),
        contexts: settings.contexts.names(),
        call_memory: None,
    }
}

/// A domain.
pub fn domain(domain: Domain) -> shown::Domain {
    match domain {
        Domain::User => shown::Domain::user,
        Domain::Kernel => shown::Domain::kernel,
    }
}

/// A loss mode.
pub fn loss(loss: Loss) -> shown::LossMode {
    match loss {
        Loss::Discard => shown::LossMode::discard,
        Loss::Overwrite => shown::LossMode::overwrite,
        Loss::Block => shown::LossMode::block,
    }
}

/// A channel's rules.
pub fn rules(rules: &[Rule]) -> Vec<shown::EventRule> {
    let rule = |rule: &Rule| {
        let level = shown::Level::from_number;
        let levels = level(rule.levels.most_severe).zip(level(rule.levels.least_severe));
        shown::EventRule {
            pattern: rule.pattern.clone(),
            excluded: rule.excluded.clone(),
            // All levels have ends that are none.
            levels: levels.map(|(most_severe, least_severe)| shown::LevelRange {
                most_severe,
                least_severe,
            }),
            filter: rule.filter.as_ref().map(|filter| filter.text().to_owned()),
            enabled: rule.enabled,
        }
    };
    rules.iter().map(rule).collect()
}

/// Findings as the interface has them.
pub fn findings(findings: &[Finding]) -> Vec<shown::Finding> {
    findings
        .iter()
        .map(|finding| shown::Finding {
            what: finding.what.clone(),
            count: count(finding.count),
        })
        .collect()
}

/// A count as the interface has it.
pub fn count(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
