// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was recorded, what is missing, where it is and what to do next: the lines at the end of `record`, `stop` and
//! `destroy`, and the JSON of `record --summary`.

use std::borrow::Cow;
use std::path::Path;

use piste_control::interface::{ChannelStatus, Domain, Finding, Participant, SessionStatus, StateDumpStatus};
use serde::Serialize;

use crate::folder::newest_snapshot;
use crate::kernel_rules::lack_text;
use crate::loss;
use crate::nothing::{self, Wanted};
use crate::quantity::{count, counted, duration, rate, size};
use crate::recording::KernelSide;
use crate::screen::{BAD, FAINT, GOOD, STRONG, printable, styled};

/// The JSON of `record`.
#[derive(Serialize)]
pub(crate) struct Summary<'a> {
    events: i64,
    discarded_events: i64,
    lost_packets: i64,
    /// Whose events are missing, nobody knows how many.
    programs_not_recorded: i64,
    bytes: i64,
    duration_ns: i64,
    exit_status: u8,
    trace: &'a str,
    domains: Domains,
    /// What the trace has beside the recorded events.
    state_dump: Option<&'a StateDumpStatus>,
    /// Why the kernel was not recorded, where it was wanted.
    kernel_missing: Option<&'a str>,
    /// What presets have and this kernel has not.
    kernel_lacking: Vec<&'a str>,
    channels: &'a [ChannelStatus],
    participants: &'a [Participant],
    findings: Vec<Finding>,
}

impl<'a> Summary<'a> {
    /// The summary of a session that a command ran in.
    pub(crate) fn new(status: &'a SessionStatus, exit_status: u8, kernel: &'a KernelSide) -> Summary<'a> {
        let total = Total::of(status);
        Summary {
            events: total.events,
            discarded_events: total.discarded_events,
            lost_packets: total.lost_packets,
            programs_not_recorded: total.programs_not_recorded,
            bytes: total.bytes,
            duration_ns: status.duration_ns,
            exit_status,
            trace: &status.output,
            domains: Domains {
                kernel: Total::of_domain(status, &Domain::kernel),
                user: Total::of_domain(status, &Domain::user),
            },
            state_dump: status.state_dump.as_ref(),
            kernel_missing: kernel.why_not.as_deref(),
            kernel_lacking: kernel.lacking.iter().map(|(pattern, _)| pattern.as_str()).collect(),
            channels: &status.channels,
            participants: &status.participants,
            findings: findings(status),
        }
    }

    /// Whether anything is missing in the trace.
    pub(crate) fn lost_anything(&self) -> bool {
        self.discarded_events > 0 || self.lost_packets > 0 || self.programs_not_recorded > 0
    }

    /// Events that are missing in the trace.
    pub(crate) fn lost_events(&self) -> i64 {
        self.discarded_events
    }

    /// One line.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are always valid JSON")
    }
}

/// Sums for each domain that has a channel.
#[derive(Serialize)]
struct Domains {
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<Total>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Total>,
}

/// Sums over channels.
#[derive(Serialize)]
pub(crate) struct Total {
    pub(crate) events: i64,
    pub(crate) bytes: i64,
    pub(crate) discarded_events: i64,
    pub(crate) lost_packets: i64,
    /// Of a session.
    #[serde(skip)]
    programs_not_recorded: i64,
}

impl Total {
    /// The sums for a session.
    pub(crate) fn of(status: &SessionStatus) -> Total {
        Total {
            programs_not_recorded: status.programs_not_recorded,
            ..Total::sum(status.channels.iter())
        }
    }

    /// The sums for one domain of it, if that has a channel.
    pub(crate) fn of_domain(status: &SessionStatus, domain: &Domain) -> Option<Total> {
        let channels = || {
            status
                .channels
                .iter()
                .filter(|channel| channel.settings.domain == *domain)
        };
        channels().next().map(|_| Total::sum(channels()))
    }

    fn sum<'a>(channels: impl Iterator<Item = &'a ChannelStatus>) -> Total {
        let mut total = Total {
            events: 0,
            bytes: 0,
            discarded_events: 0,
            lost_packets: 0,
            programs_not_recorded: 0,
        };
        // What a hostile program claims to have lost is any number.
        for channel in channels {
            total.events = total.events.saturating_add(channel.events);
            total.bytes = total.bytes.saturating_add(channel.bytes);
            total.discarded_events = total.discarded_events.saturating_add(channel.discarded_events);
            total.lost_packets = total.lost_packets.saturating_add(channel.lost_packets);
        }
        total
    }

    /// Neither recorded nor lost anything.
    pub(crate) fn is_nothing(&self) -> bool {
        self.events == 0 && self.discarded_events == 0 && self.lost_packets == 0 && self.programs_not_recorded == 0
    }

    /// ``nothing lost``, or ``12,345 events discarded, 2 packets lost``, in colour.
    pub(crate) fn loss(&self) -> String {
        match loss::missing(self.discarded_events, self.lost_packets, self.programs_not_recorded) {
            None => styled(GOOD, "nothing lost"),
            Some(missing) => styled(BAD, missing),
        }
    }
}

/// The lines after `piste record`; with what became of the kernel's part, if that is wanted.
pub(crate) fn recorded(status: &SessionStatus, wanted: &Wanted, kernel: Option<&KernelSide>) -> String {
    let mut lines = format!("{} {}\n", styled(STRONG, "piste:"), headline(status));
    lines += &domains(status);
    lines += &loss::lines(status, loss::Options::OfRecord);
    lines += &findings_lines(status);
    for lacking in kernel.iter().flat_map(|kernel| &kernel.lacking) {
        lines += &labelled("note", &lack_text(lacking));
    }
    if let Some(reason) = nothing::reason(status, wanted) {
        lines += &labelled("why", &reason);
    }
    if Total::of(status).is_nothing() {
        return lines;
    }
    lines + &whereabouts(status)
}

/// The lines after `piste stop` and `piste destroy`.
pub(crate) fn ended(status: &SessionStatus, verb: &str) -> String {
    let mut lines = format!(
        "{verb} {}: {}\n",
        styled(STRONG, printable(&status.name)),
        headline(status)
    );
    lines += &domains(status);
    lines += &loss::lines(status, loss::Options::OfChannel);
    lines += &findings_lines(status);
    lines + &whereabouts(status)
}

/// What the trace has beside the recorded events.
fn state_dump(status: &SessionStatus) -> String {
    status.state_dump.as_ref().map_or_else(String::new, |dump| {
        labelled(
            "state",
            &format!("{}, {}", counted(dump.events, "event"), size(dump.bytes)),
        )
    })
}

/// What each domain has, where there are both.
fn domains(status: &SessionStatus) -> String {
    let of = |domain: Domain| Total::of_domain(status, &domain);
    let (Some(kernel), Some(user)) = (of(Domain::kernel), of(Domain::user)) else {
        return state_dump(status);
    };
    let line = |label: &str, total: &Total| {
        let text = format!("{}, {}", counted(total.events, "event"), size(total.bytes));
        match loss::missing(total.discarded_events, total.lost_packets, 0) {
            Some(missing) => labelled(label, &format!("{text}, {}", styled(BAD, missing))),
            None => labelled(label, &text),
        }
    };
    line("kernel", &kernel) + &line("user", &user) + &state_dump(status)
}

/// ``1,234,567 events, 52.3 MiB, in 3.21 s (384,000 events/s), nothing lost``
pub(crate) fn headline(status: &SessionStatus) -> String {
    let total = Total::of(status);
    let time = duration(status.duration_ns);
    if status.snapshot {
        let snapshots = styled(STRONG, counted(status.snapshots, "snapshot"));
        return format!("{snapshots}, recording for {time}, {}", total.loss());
    }
    let events = styled(STRONG, counted(total.events, "event"));
    let rate = match rate(total.events, status.duration_ns) {
        Some(rate) if total.events > 0 => format!(" ({rate} events/s)"),
        _ => String::new(),
    };
    format!("{events}, {}, in {time}{rate}, {}", size(total.bytes), total.loss())
}

/// The findings of the session, then those of its channels; what several channels found is one.
pub(crate) fn findings(status: &SessionStatus) -> Vec<Finding> {
    let mut findings: Vec<Finding> = vec![];
    let of_channels = status.channels.iter().flat_map(|channel| &channel.findings);
    for finding in status.findings.iter().chain(of_channels) {
        match findings.iter_mut().find(|other| other.what == finding.what) {
            Some(same) => same.count += finding.count,
            None => findings.push(finding.clone()),
        }
    }
    findings
}

fn findings_lines(status: &SessionStatus) -> String {
    findings(status)
        .iter()
        .map(|finding| labelled("found", &finding_text(finding)))
        .collect()
}

/// `a disk was full (3 times)`
pub(crate) fn finding_text(finding: &Finding) -> String {
    let times = if finding.count == 1 {
        String::new()
    } else {
        format!(" ({} times)", count(finding.count))
    };
    format!("{}{times}", printable(&finding.what))
}

fn whereabouts(status: &SessionStatus) -> String {
    if status.snapshot && status.snapshots == 0 {
        return labelled("trace", "in memory; write it with `piste snapshot record`");
    }
    let mut lines = labelled("trace", &styled(STRONG, printable(&status.output)));
    // Snapshots have events in common, so that they are looked at one by one. They may have gone elsewhere.
    let trace = match status.snapshot {
        true => newest_snapshot(Path::new(&status.output)),
        false => (Total::of(status).events > 0).then(|| status.output.clone()),
    };
    if let Some(trace) = trace {
        // Of the kernel there are too many events to read them one by one.
        let kernel_events = Total::of_domain(status, &Domain::kernel).map_or(0, |total| total.events);
        let verb = if kernel_events > 0 { "insights" } else { "view" };
        lines += &labelled("next", &format!("piste {verb} {}", quoted(&trace)));
    }
    lines
}

/// A line with a faint label before it.
pub(crate) fn labelled(label: &str, text: &str) -> String {
    format!("  {}{text}\n", styled(FAINT, format!("{label:<7}")))
}

/// `path` as a shell reads it.
pub(crate) fn quoted(path: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        return path.into();
    }
    printable(&format!("'{}'", path.replace('\'', r"'\''")))
        .into_owned()
        .into()
}

#[cfg(test)]
pub(crate) mod tests {
    use piste_control::interface::{
        ChannelSettings, Domain, EventRule, Level, LevelRange, LossMode, Losses, SessionState, Tracked,
    };

    use super::*;

    /// A session with one channel, three processes, some loss and a finding.
    pub(crate) fn session() -> SessionStatus {
        SessionStatus {
            name: "web".into(),
            id: "1".into(),
            state: SessionState::stopped,
            current: true,
            output: "/traces/web".into(),
            snapshot: false,
            record_id: None,
            started_ns: Some(1),
            duration_ns: 2_000_000_000,
            snapshots: 0,
            chunks: 0,
            tracked: Tracked::default(),
            kernel_tracked: Tracked::default(),
            channels: vec![ChannelStatus {
                enabled: true,
                settings: ChannelSettings {
                    name: "default".into(),
                    domain: Domain::user,
                    loss: LossMode::discard,
                    block_timeout_us: None,
                    subbuf_bytes: 256 << 10,
                    subbuf_count: 4,
                    contexts: vec!["vtid".into(), "cpu_id".into()],
                    call_memory: None,
                },
                rules: vec![EventRule {
                    pattern: "shop:*".into(),
                    excluded: vec!["shop:noise".into()],
                    levels: Some(LevelRange {
                        most_severe: Level::emerg,
                        least_severe: Level::err,
                    }),
                    filter: None,
                    enabled: true,
                }],
                kernel_rules: vec![],
                events: 1000,
                packets: 1,
                bytes: 64 << 10,
                discarded_events: 24,
                lost_packets: 0,
                losses: Losses {
                    discarded_full: 20,
                    discarded_too_large: 4,
                    discarded_late: 0,
                    overwritten: 0,
                    lost_packets: 0,
                },
                fullest_percent: Some(37),
                findings: vec![],
            }],
            programs: 1,
            participants: vec![Participant {
                name: "shop".into(),
                path: "/bin/shop".into(),
                processes: 3,
                matched: 3,
            }],
            state_dump: None,
            programs_left_out: 0,
            unmatched_events: vec![],
            programs_not_recorded: 0,
            findings: vec![Finding {
                what: "a program sent a message of an unknown type".into(),
                count: 2,
            }],
        }
    }

    /// The same with a channel of the kernel, which lost nothing.
    pub(crate) fn with_kernel() -> SessionStatus {
        let mut session = session();
        let mut channel = session.channels[0].clone();
        channel.settings = ChannelSettings {
            name: "kernel".into(),
            domain: Domain::kernel,
            subbuf_bytes: 64 << 10,
            subbuf_count: 64,
            contexts: vec!["tid".into()],
            ..channel.settings
        };
        (channel.events, channel.bytes, channel.discarded_events) = (20_000, 1 << 20, 0);
        channel.losses.discarded_full = 0;
        channel.losses.discarded_too_large = 0;
        channel.fullest_percent = None;
        channel.rules.clear();
        session.channels.push(channel);
        session
    }

    /// The lines without colours.
    pub(crate) fn seen(lines: &str) -> String {
        anstream::adapter::strip_str(lines).to_string()
    }

    #[test]
    fn programs_may_claim_any_losses() {
        let mut session = session();
        let channel = &mut session.channels[0];
        (channel.discarded_events, channel.lost_packets) = (i64::MAX, i64::MAX);
        session.channels.push(session.channels[0].clone());
        let total = Total::of(&session);
        assert_eq!((total.discarded_events, total.lost_packets), (i64::MAX, i64::MAX));
    }

    #[test]
    fn the_summary_says_what_is_missing_why_and_what_helps() {
        assert_eq!(
            seen(&recorded(
                &session(),
                &Wanted {
                    patterns: &[],
                    preloaded: false
                },
                None
            )),
            "\
piste: 1,000 events, 64 KiB, in 2.00 s (500 events/s), 24 events discarded
  lost   channel default: 24 events discarded (2.3 %): 20 had no space in the ring, 4 did not fit into a sub-buffer
  try    larger rings: --num-subbuf 16 or --subbuf-size 1M, or let the program wait: --block 1s
  found  a program sent a message of an unknown type (2 times)
  trace  /traces/web
  next   piste view /traces/web
"
        );
    }

    #[test]
    fn both_domains_have_their_counts_and_what_the_kernel_lacks_is_said_when_asked() {
        let mut session = with_kernel();
        session.findings.clear();
        for channel in &mut session.channels {
            channel.findings.push(Finding {
                what: "there is no process 7".into(),
                count: 1,
            });
        }
        let kernel = KernelSide {
            is_recorded: true,
            why_not: None,
            lacking: vec![("irq:tasklet_*".into(), "irq")],
        };
        let wanted = Wanted {
            patterns: &[],
            preloaded: false,
        };
        assert_eq!(
            seen(&recorded(&session, &wanted, Some(&kernel))),
            "\
piste: 21,000 events, 1.1 MiB, in 2.00 s (10,500 events/s), 24 events discarded
  kernel 20,000 events, 1 MiB
  user   1,000 events, 64 KiB, 24 events discarded
  lost   channel default: 24 events discarded (2.3 %): 20 had no space in the ring, 4 did not fit into a sub-buffer
  try    larger rings: --num-subbuf 16 or --subbuf-size 1M, or let the program wait: --block 1s
  found  there is no process 7 (2 times)
  note   this kernel has no event irq:tasklet_* (preset irq)
  trace  /traces/web
  next   piste insights /traces/web
"
        );
        let json: serde_json::Value = serde_json::from_str(&Summary::new(&session, 0, &kernel).json()).unwrap();
        assert_eq!(json["domains"]["kernel"]["events"], 20_000);
        assert_eq!(json["domains"]["user"]["discarded_events"], 24);
        assert_eq!(json["kernel_lacking"][0], "irq:tasklet_*");
    }

    #[test]
    fn a_whole_trace_is_three_lines() {
        let mut session = session();
        session.findings.clear();
        session.channels[0].discarded_events = 0;
        session.output = "/my traces/it's".into();
        assert_eq!(
            seen(&ended(&session, "stopped")),
            "\
stopped web: 1,000 events, 64 KiB, in 2.00 s (500 events/s), nothing lost
  trace  /my traces/it's
  next   piste view '/my traces/it'\\''s'
"
        );
    }

    #[test]
    fn the_json_has_its_keys_at_the_top() {
        let status = session();
        let kernel = KernelSide::default();
        let summary = Summary::new(&status, 3, &kernel);
        assert!(summary.lost_anything());
        let json: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        for (key, value) in [
            ("events", 1000),
            ("discarded_events", 24),
            ("lost_packets", 0),
            ("bytes", 65536),
            ("exit_status", 3),
        ] {
            assert_eq!(json[key], value, "{key}");
        }
        assert_eq!(json["duration_ns"], 2_000_000_000_i64);
        assert_eq!(json["trace"], "/traces/web");
        assert_eq!(json["channels"][0]["losses"]["discarded_full"], 20);
        assert_eq!(json["participants"][0]["name"], "shop");
        assert_eq!(json["findings"][0]["count"], 2);
    }
}
