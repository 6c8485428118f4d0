// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was recorded, what is missing, where it is and what to do next: the lines at the end of `record`, `stop` and
//! `destroy`, and the JSON of `record --summary`.

use std::borrow::Cow;

use piste_control::interface::{ChannelStatus, Finding, Participant, SessionStatus};
use serde::Serialize;

use crate::loss;
use crate::nothing::{self, Wanted};
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
        match loss::missing(self.discarded_events, self.lost_packets) {
            None => styled(GOOD, "nothing lost"),
            Some(missing) => styled(BAD, missing),
        }
    }
}

/// The lines after `piste record`.
pub(crate) fn recorded(status: &SessionStatus, wanted: &Wanted) -> String {
    let mut lines = format!("{} {}\n", styled(STRONG, "piste:"), headline(status));
    let total = Total::of(status);
    lines += &loss::lines(status);
    lines += &findings_lines(status);
    if total.events == 0 && total.discarded_events == 0 && total.lost_packets == 0 {
        lines += &labelled("why", &nothing::reason(status, wanted));
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
    lines += &loss::lines(status);
    lines += &findings_lines(status);
    lines + &whereabouts(status)
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
    if status.snapshot && status.snapshots == 0 {
        return labelled("trace", "in memory; write it with `piste snapshot record`");
    }
    let mut lines = labelled("trace", &styled(STRONG, printable(&status.output)));
    if Total::of(status).events > 0 || status.snapshots > 0 {
        lines += &labelled("next", &format!("babeltrace2 {}", quoted(&status.output)));
    }
    lines
}

/// A line with a faint label before it.
pub(crate) fn labelled(label: &str, text: &str) -> String {
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

    /// The lines without colours.
    pub(crate) fn seen(lines: &str) -> String {
        anstream::adapter::strip_str(lines).to_string()
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
