// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was recorded, what is missing, where it is and what to do next: the lines at the end of `record`, `stop` and
//! `destroy`, and the JSON of `record --summary`.

use std::borrow::Cow;

use piste_control::interface::{ChannelStatus, Finding, Participant, SessionStatus};
use serde::Serialize;

use crate::nearest::nearest;
use crate::quantity::{count, counted, duration, rate, size};
use crate::screen::{BAD, FAINT, GOOD, STRONG, printable, styled};

/// The JSON of `record`.
#[derive(Serialize)]
pub(crate) struct Summary<'a> {
    events: i64,
    discarded_events: i64,
    lost_packets: i64,
    bytes: i64,
    duration_ns: i64,
    exit_status: u8,
    trace: &'a str,
    channels: &'a [ChannelStatus],
    programs: &'a [Participant],
    findings: Vec<&'a Finding>,
}

impl<'a> Summary<'a> {
    /// The summary of a session that a command ran in.
    pub(crate) fn new(status: &'a SessionStatus, exit_status: u8) -> Summary<'a> {
        let total = Total::of(status);
        Summary {
            events: total.events,
            discarded_events: total.discarded_events,
            lost_packets: total.lost_packets,
            bytes: total.bytes,
            duration_ns: status.duration_ns,
            exit_status,
            trace: &status.output,
            channels: &status.channels,
            programs: &status.participants,
            findings: findings(status).collect(),
        }
    }

    /// Whether anything is missing in the trace.
    pub(crate) fn lost_anything(&self) -> bool {
        self.discarded_events > 0 || self.lost_packets > 0
    }

    /// One line.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are always valid JSON")
    }
}

/// What the user asked to record; tells why nothing was.
pub(crate) struct Wanted<'a> {
    pub(crate) patterns: &'a [String],
    pub(crate) preloaded: bool,
}

/// Sums over a session's channels.
pub(crate) struct Total {
    pub(crate) events: i64,
    pub(crate) bytes: i64,
    pub(crate) discarded_events: i64,
    pub(crate) lost_packets: i64,
}

impl Total {
    /// The sums for a session.
    pub(crate) fn of(status: &SessionStatus) -> Total {
        let sum = |value: fn(&ChannelStatus) -> i64| status.channels.iter().map(value).sum();
        Total {
            events: sum(|channel| channel.events),
            bytes: sum(|channel| channel.bytes),
            discarded_events: sum(|channel| channel.discarded_events),
            lost_packets: sum(|channel| channel.lost_packets),
        }
    }

    /// ``nothing lost``, or ``12,345 events discarded, 2 packets lost``, in colour.
    pub(crate) fn loss(&self) -> String {
        match missing(self.discarded_events, self.lost_packets) {
            None => styled(GOOD, "nothing lost"),
            Some(missing) => styled(BAD, missing),
        }
    }
}

/// The lines after `piste record`.
pub(crate) fn recorded(status: &SessionStatus, wanted: &Wanted) -> String {
    let mut lines = format!("{} {}\n", styled(STRONG, "piste:"), headline(status));
    let total = Total::of(status);
    lines += &losses(status);
    lines += &findings_lines(status);
    if total.events == 0 && total.discarded_events == 0 && total.lost_packets == 0 {
        lines += &labelled("why", &why_nothing(status, wanted));
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
    lines += &losses(status);
    lines += &findings_lines(status);
    lines + &whereabouts(status)
}

/// ``1,234,567 events, 52.3 MiB, in 3.21 s (384,000 events/s), nothing lost``
fn headline(status: &SessionStatus) -> String {
    let total = Total::of(status);
    let mut line = format!(
        "{}, {}, in {}",
        styled(STRONG, counted(total.events, "event")),
        size(total.bytes),
        duration(status.duration_ns)
    );
    if total.events > 0
        && let Some(rate) = rate(total.events, status.duration_ns)
    {
        line += &format!(" ({rate} events/s)");
    }
    line + ", " + &total.loss()
}

/// A line for each channel that lost something, and what helps.
fn losses(status: &SessionStatus) -> String {
    let mut lines = String::new();
    for channel in &status.channels {
        let Some(missing) = missing(channel.discarded_events, channel.lost_packets) else {
            continue;
        };
        let share = 100.0 * channel.discarded_events as f64 / (channel.events + channel.discarded_events).max(1) as f64;
        let share = if share >= 0.05 {
            format!(" ({share:.1} %)")
        } else {
            String::new()
        };
        let reasons = reasons(channel, status.snapshot);
        let text = format!("channel {}: {missing}{share}", printable(&channel.settings.name));
        let why = if reasons.is_empty() {
            String::new()
        } else {
            format!(": {}", reasons.join(", "))
        };
        lines += &labelled("lost", &(styled(BAD, text) + &why));
        if let Some(remedy) = remedy(channel, status.snapshot) {
            lines += &labelled("try", &remedy);
        }
    }
    lines
}

fn missing(discarded_events: i64, lost_packets: i64) -> Option<String> {
    match (discarded_events, lost_packets) {
        (0, 0) => None,
        (events, 0) => Some(format!("{} discarded", counted(events, "event"))),
        (0, packets) => Some(format!("{} lost", counted(packets, "packet"))),
        (events, packets) => Some(format!(
            "{} discarded, {} lost",
            counted(events, "event"),
            counted(packets, "packet")
        )),
    }
}

fn reasons(channel: &ChannelStatus, snapshot: bool) -> Vec<String> {
    let losses = &channel.losses;
    let overwritten = if snapshot { 0 } else { losses.overwritten };
    [
        (losses.discarded_full, "had no space in the ring"),
        (losses.discarded_too_large, "did not fit into a sub-buffer"),
        (losses.discarded_late, "took too long to write"),
        (overwritten, "were overwritten"),
    ]
    .into_iter()
    .filter(|(events, _)| *events > 0)
    .map(|(events, reason)| format!("{} {reason}", count(events)))
    .collect()
}

fn remedy(channel: &ChannelStatus, snapshot: bool) -> Option<String> {
    let settings = &channel.settings;
    let larger = size(settings.subbuf_bytes.saturating_mul(4))
        .replace(" KiB", "K")
        .replace(" MiB", "M")
        .replace(" GiB", "G");
    let losses = &channel.losses;
    if losses.discarded_full > 0 || (losses.overwritten > 0 && !snapshot) {
        let wait = if settings.block_timeout_us.is_none() {
            ", or let the program wait: --block 1s"
        } else {
            ""
        };
        return Some(format!(
            "larger rings: --num-subbuf {} or --subbuf-size {larger}{wait}",
            settings.subbuf_count * 4
        ));
    }
    (losses.discarded_too_large > 0).then(|| format!("larger sub-buffers: --subbuf-size {larger}"))
}

/// The findings of the session, then those of its channels.
pub(crate) fn findings(status: &SessionStatus) -> impl Iterator<Item = &Finding> {
    status
        .findings
        .iter()
        .chain(status.channels.iter().flat_map(|channel| &channel.findings))
}

fn findings_lines(status: &SessionStatus) -> String {
    findings(status)
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
    let total = Total::of(status);
    if status.snapshot && status.snapshots == 0 {
        return labelled("trace", "in memory; write it with `piste snapshot record`");
    }
    let mut lines = labelled("trace", &styled(STRONG, printable(&status.output)));
    if total.events > 0 {
        lines += &labelled("next", &format!("babeltrace2 {}", quoted(&status.output)));
    }
    lines
}

fn why_nothing(status: &SessionStatus, wanted: &Wanted) -> String {
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

fn labelled(label: &str, text: &str) -> String {
    format!("  {}{text}\n", styled(FAINT, format!("{label:<7}")))
}

/// `path` as a shell reads it.
fn quoted(path: &str) -> Cow<'_, str> {
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
    use piste_control::interface::{ChannelSettings, EventRule, Level, LossMode, Losses, SessionState};

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
            channels: vec![ChannelStatus {
                settings: ChannelSettings {
                    name: "default".into(),
                    loss: LossMode::discard,
                    block_timeout_us: None,
                    subbuf_bytes: 256 << 10,
                    subbuf_count: 4,
                    context_vtid: true,
                    context_cpu_id: true,
                },
                rules: vec![EventRule {
                    pattern: "shop:*".into(),
                    excluded: vec!["shop:noise".into()],
                    level: Some(Level::err),
                    level_only: false,
                    enabled: true,
                }],
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
                findings: vec![],
            }],
            programs: 1,
            participants: vec![Participant {
                name: "shop".into(),
                path: "/bin/shop".into(),
                processes: 3,
                matched: 3,
            }],
            unmatched_events: vec![],
            findings: vec![Finding {
                what: "a program sent a message of an unknown type".into(),
                count: 2,
            }],
        }
    }

    fn without_events() -> SessionStatus {
        let mut session = session();
        session.findings.clear();
        session.channels[0].events = 0;
        session.channels[0].bytes = 0;
        session.channels[0].discarded_events = 0;
        session.participants.clear();
        session
    }

    fn seen(lines: &str) -> String {
        anstream::adapter::strip_str(lines).to_string()
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
    fn the_summary_says_what_is_missing_why_and_what_helps() {
        assert_eq!(
            seen(&recorded(
                &session(),
                &Wanted {
                    patterns: &[],
                    preloaded: false
                }
            )),
            "\
piste: 1,000 events, 64 KiB, in 2.00 s (500 events/s), 24 events discarded
  lost   channel default: 24 events discarded (2.3 %): 20 had no space in the ring, 4 did not fit into a sub-buffer
  try    larger rings: --num-subbuf 16 or --subbuf-size 1M, or let the program wait: --block 1s
  found  a program sent a message of an unknown type (2 times)
  trace  /traces/web
  next   babeltrace2 /traces/web
"
        );
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
  next   babeltrace2 '/my traces/it'\\''s'
"
        );
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

    #[test]
    fn overwritten_events_are_a_loss_only_where_a_trace_lacks_them() {
        let mut session = session();
        session.channels[0].losses = Losses {
            discarded_full: 0,
            discarded_too_large: 0,
            discarded_late: 0,
            overwritten: 24,
            lost_packets: 0,
        };
        assert!(seen(&losses(&session)).contains("24 were overwritten"));
        session.snapshot = true;
        session.channels[0].discarded_events = 0;
        assert_eq!(losses(&session), "");
    }

    #[test]
    fn the_json_has_its_keys_at_the_top() {
        let status = session();
        let summary = Summary::new(&status, 3);
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
        assert_eq!(json["programs"][0]["name"], "shop");
        assert_eq!(json["findings"][0]["count"], 2);
    }
}
