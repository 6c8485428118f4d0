// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste status`: one session in full.

use piste_control::interface::{ChannelStatus, Domain, SessionState, SessionStatus, VarlinkClientInterface};

use crate::arguments::OneSession;
use crate::channels::{contexts, loss_mode, rings};
use crate::columns::{Align, Cell, Columns};
use crate::failure::Failure;
use crate::json::of_pisted;
use crate::kernel_rules;
use crate::list;
use crate::page::{Page, Width};
use crate::quantity::{count, counted, rate, size};
use crate::rules::rule_text;
use crate::screen::{BAD, FAINT, STRONG, printable, styled};
use crate::session::connect;
use crate::summary::{finding_text, findings, headline};
use crate::tracked;

/// `piste status`
pub(crate) fn status(arguments: OneSession, page: &Page, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    let session = arguments.chosen();
    // Events are counted when they are in the trace. Where it cannot be written, the status says why.
    let _ = client.calls().flush(session.clone()).call();
    show_one(&client.calls().status(session).call()?.session, page, json)
}

/// Shows a session.
pub(crate) fn show_one(session: &SessionStatus, page: &Page, json: bool) -> Result<(), Failure> {
    match json {
        true => page.show_json(&of_pisted(session)?),
        false => page.show(&text(session, page.width())),
    }
}

fn text(session: &SessionStatus, width: Width) -> String {
    let mut text = format!(
        "session {}: {}",
        styled(STRONG, printable(&session.name)),
        list::state(&session.state)
    );
    if session.state != SessionState::inactive {
        text += &format!(", {}", headline(session));
    }
    text += "\n";
    text += &labelled("trace", &trace(session));
    text += &labelled("programs", &programs(session));
    if let Some(about) = tracked::text(&session.tracked) {
        text += &labelled("tracked", &tracked_programs(session, &about));
    }
    if session.channels.iter().any(of_kernel) {
        let about = tracked::text(&session.kernel_tracked).unwrap_or_else(|| "the whole system".into());
        text += &labelled("kernel", &about);
    }
    for finding in findings(session) {
        text += &labelled("found", &finding_text(&finding));
    }
    if !session.channels.is_empty() {
        text += "\n";
        text += &channels(session, width);
        text += "\n";
        text += &rules(session);
    }
    text
}

fn trace(session: &SessionStatus) -> String {
    match (session.snapshot, session.snapshots) {
        (false, _) if session.chunks > 0 => {
            format!(
                "{} (current chunk: {})",
                printable(&session.output),
                count(session.chunks + 1)
            )
        }
        (false, _) => printable(&session.output).into_owned(),
        (true, snapshots) => format!("{} in {}", counted(snapshots, "snapshot"), printable(&session.output)),
    }
}

fn programs(session: &SessionStatus) -> String {
    const SHOWN: usize = 8;
    let names: Vec<String> = session
        .participants
        .iter()
        .take(SHOWN)
        .map(|participant| match participant.processes {
            1 => printable(&participant.name).into_owned(),
            processes => format!("{} ({})", printable(&participant.name), count(processes)),
        })
        .collect();
    let more = session.participants.len().saturating_sub(SHOWN);
    match (names.is_empty(), more) {
        (true, _) => format!("{} attached", count(session.programs)),
        (false, 0) => format!("{} attached; recorded: {}", count(session.programs), names.join(", ")),
        (false, more) => format!(
            "{} attached; recorded: {} and {more} more",
            count(session.programs),
            names.join(", ")
        ),
    }
}

/// `uid 1000; 3 programs left out`
fn tracked_programs(session: &SessionStatus, about: &str) -> String {
    match session.programs_left_out {
        0 => about.to_owned(),
        left_out => format!("{about}; {} left out", counted(left_out, "program")),
    }
}

fn channels(session: &SessionStatus, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("CHANNEL", Align::Left),
        ("DOMAIN", Align::Left),
        ("WHEN FULL", Align::Left),
        ("RING", Align::Right),
        ("FULLEST", Align::Right),
        ("CONTEXTS", Align::Left),
        ("EVENTS", Align::Right),
        ("EVENTS/S", Align::Right),
        ("SIZE", Align::Right),
        ("DISCARDED", Align::Right),
        ("LOST PACKETS", Align::Right),
    ])
    .with_minor(&["WHEN FULL", "RING", "FULLEST", "CONTEXTS", "EVENTS/S"]);
    let loss = |lost: i64| {
        if lost > 0 {
            Cell::styled(BAD, count(lost))
        } else {
            Cell::from("0")
        }
    };
    for channel in &session.channels {
        let contexts = contexts(&channel.settings);
        columns.row([
            Cell::styled(STRONG, channel_name(channel)),
            Cell::from(domain_name(&channel.settings.domain)),
            Cell::from(loss_mode(&channel.settings)),
            Cell::from(rings(&channel.settings)),
            Cell::from(
                channel
                    .fullest_percent
                    .map_or(String::new(), |percent| format!("{percent} %")),
            ),
            Cell::from(if contexts.is_empty() { "none".into() } else { contexts }),
            Cell::from(count(channel.events)),
            Cell::from(rate(channel.events, session.duration_ns).unwrap_or_default()),
            Cell::from(size(channel.bytes)),
            loss(channel.discarded_events),
            loss(channel.lost_packets),
        ]);
    }
    columns.lines(2, width)
}

fn rules(session: &SessionStatus) -> String {
    let mut text = String::new();
    for channel in &session.channels {
        let of_users = channel.rules.iter().map(|rule| (rule_text(rule), rule.enabled));
        let of_kernels = channel
            .kernel_rules
            .iter()
            .map(|rule| (kernel_rules::text(rule), rule.enabled));
        for (rule, enabled) in of_users.chain(of_kernels) {
            let disabled = if enabled { "" } else { ", disabled" };
            let kernel = if of_kernel(channel) { "kernel " } else { "" };
            let line = format!(
                "{rule}{disabled}, in {kernel}channel {}",
                printable(&channel_name(channel))
            );
            text += &labelled("events", &line);
        }
    }
    if text.is_empty() {
        return labelled(
            "events",
            "none enabled; enable some with `piste enable-event -u PATTERN`, or -k PATTERN",
        );
    }
    text
}

/// `often`, `rare (disabled)`
fn channel_name(channel: &ChannelStatus) -> String {
    let disabled = if channel.enabled { "" } else { " (disabled)" };
    format!("{}{disabled}", channel.settings.name)
}

fn of_kernel(channel: &ChannelStatus) -> bool {
    channel.settings.domain == Domain::kernel
}

/// What people call the domain.
pub(crate) fn domain_name(domain: &Domain) -> &'static str {
    match domain {
        Domain::user => "user",
        Domain::kernel => "kernel",
    }
}

fn labelled(label: &str, text: &str) -> String {
    format!("  {}{text}\n", styled(FAINT, format!("{label:<10}")))
}

#[cfg(test)]
mod tests {
    use piste_control::interface::KernelEventKind;

    use super::*;
    use crate::summary::tests::{session, with_kernel};

    #[test]
    fn a_kernel_channel_is_shown_with_its_rules_and_what_it_is_about() {
        let mut session = with_kernel();
        session.kernel_tracked.pids = Some(vec![7]);
        session.channels[1].kernel_rules = vec![kernel_rules::rule(KernelEventKind::syscall, "open*")];
        let seen = anstream::adapter::strip_str(&text(&session, Width::ANY)).to_string();
        assert!(seen.contains("\n  kernel    pid 7\n"), "{seen}");
        assert!(
            seen.contains("\n  kernel   kernel  discard    64 x 64 KiB           tid  "),
            "{seen}"
        );
        assert!(
            seen.ends_with("  events    system call open*, in kernel channel kernel\n"),
            "{seen}"
        );
    }

    #[test]
    fn a_disabled_channel_is_shown_with_its_rules() {
        let mut session = session();
        session.channels[0].enabled = false;
        let seen = anstream::adapter::strip_str(&text(&session, Width::ANY)).to_string();
        assert!(seen.contains("\n  default (disabled)  user    discard"), "{seen}");
        assert!(seen.ends_with(", in channel default (disabled)\n"), "{seen}");
    }

    #[test]
    fn a_session_that_leaves_programs_out_says_which_and_how_many() {
        let mut session = session();
        session.tracked.uids = Some(vec![1000]);
        session.programs_left_out = 2;
        let seen = anstream::adapter::strip_str(&text(&session, Width::ANY)).to_string();
        assert!(seen.contains("\n  tracked   uid 1000; 2 programs left out\n"), "{seen}");
    }

    #[test]
    fn a_session_that_was_rotated_says_in_which_chunk_it_is() {
        let mut session = session();
        session.chunks = 2;
        let seen = anstream::adapter::strip_str(&text(&session, Width::ANY)).to_string();
        assert!(seen.contains("  trace     /traces/web (current chunk: 3)\n"), "{seen}");
    }

    #[test]
    fn a_session_is_shown_with_channels_rules_and_losses() {
        let seen = anstream::adapter::strip_str(&text(&session(), Width::ANY)).to_string();
        assert_eq!(
            seen,
            "\
session web: stopped, 1,000 events, 64 KiB, in 2.00 s (500 events/s), 24 events discarded
  trace     /traces/web
  programs  1 attached; recorded: shop (3)
  found     a program sent a message of an unknown type (2 times)

  CHANNEL  DOMAIN  WHEN FULL         RING  FULLEST  CONTEXTS      EVENTS  EVENTS/S    SIZE  DISCARDED  LOST PACKETS
  default  user    discard    4 x 256 KiB     37 %  vtid, cpu_id   1,000       500  64 KiB         24             0

  events    shop:*, not shop:noise, level err and more severe, in channel default
"
        );
    }
}
