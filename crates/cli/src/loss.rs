// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace lacks: how much, why, and which options would have kept it.

use piste_control::interface::{ChannelStatus, Domain, SessionStatus};
use piste_control::{CANNOT_WRITE, FILES_GONE, RINGS_GONE};

use crate::quantity::{count, counted, size};
use crate::screen::{BAD, printable, styled};
use crate::summary::labelled;

/// Which options set the sizes of a kernel channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Options {
    /// Those of `record`.
    OfRecord,
    /// Those of `enable-channel`.
    OfChannel,
}

/// A line for each channel that lost something, and what helps.
pub(crate) fn lines(status: &SessionStatus, options: Options) -> String {
    let mut lines = String::new();
    for channel in &status.channels {
        let Some(missing) = missing(channel.discarded_events, channel.lost_packets, 0) else {
            continue;
        };
        // As floats: a hostile program may claim any number.
        let discarded = channel.discarded_events as f64;
        let share = 100.0 * discarded / (channel.events as f64 + discarded).max(1.0);
        let share = if share >= 0.05 {
            format!(" ({share:.1} %)")
        } else {
            String::new()
        };
        let late = match [FILES_GONE, RINGS_GONE].map(|what| is_found(status, channel, what)) {
            [true, _] => "were removed with their files or not written in time",
            [_, true] => "or more were removed with the kernel's rings or not written in time",
            [false, false] => "were not written in time",
        };
        let reasons = reasons(channel, status.snapshot, late);
        let kernel = match channel.settings.domain {
            Domain::kernel => "kernel ",
            Domain::user => "",
        };
        let text = format!(
            "{kernel}channel {}: {missing}{share}",
            printable(&channel.settings.name)
        );
        let why = if reasons.is_empty() {
            String::new()
        } else {
            format!(": {}", reasons.join(", "))
        };
        lines += &labelled("lost", &(styled(BAD, text) + &why));
        let remedy = match is_unwritable(status, channel) {
            true => Some("more space on the disk of the trace, or another disk: -o".into()),
            false => remedy(channel, status.snapshot, options),
        };
        if let Some(remedy) = remedy {
            lines += &labelled("try", &remedy);
        }
    }
    lines
}

/// Whether the trace could not be written for a while: then no ring is large enough.
fn is_unwritable(status: &SessionStatus, channel: &ChannelStatus) -> bool {
    is_found(status, channel, CANNOT_WRITE)
}

fn is_found(status: &SessionStatus, channel: &ChannelStatus, begin: &str) -> bool {
    let mut findings = status.findings.iter().chain(&channel.findings);
    findings.any(|finding| finding.what.starts_with(begin))
}

/// ``12,345 events discarded, 2 packets lost, 1 program not recorded``, if anything is missing.
pub(crate) fn missing(discarded_events: i64, lost_packets: i64, programs_not_recorded: i64) -> Option<String> {
    let parts = [
        (discarded_events, "event", "discarded"),
        (lost_packets, "packet", "lost"),
        (programs_not_recorded, "program", "not recorded"),
    ];
    let told = parts.into_iter().filter(|&(count, ..)| count > 0);
    let told: Vec<String> = told
        .map(|(count, noun, what)| format!("{} {what}", counted(count, noun)))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn reasons(channel: &ChannelStatus, snapshot: bool, late: &str) -> Vec<String> {
    let losses = &channel.losses;
    let overwritten = if snapshot { 0 } else { losses.overwritten };
    [
        (losses.discarded_full, "had no space in the ring"),
        (losses.discarded_too_large, "did not fit into a sub-buffer"),
        (losses.discarded_late, late),
        (overwritten, "were overwritten"),
    ]
    .into_iter()
    .filter(|(events, _)| *events > 0)
    .map(|(events, reason)| format!("{} {reason}", count(events)))
    .collect()
}

fn remedy(channel: &ChannelStatus, snapshot: bool, options: Options) -> Option<String> {
    if channel.settings.domain == Domain::kernel {
        return remedy_of_kernel(channel, snapshot, options);
    }
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

fn remedy_of_kernel(channel: &ChannelStatus, snapshot: bool, options: Options) -> Option<String> {
    let losses = &channel.losses;
    let (option, fewer) = match options {
        Options::OfRecord => ("--kernel-subbuf-count", "-k, --syscall, --preset, --filter"),
        Options::OfChannel => ("--num-subbuf", "narrower patterns, --filter, `piste track`"),
    };
    (losses.discarded_full > 0 || (losses.overwritten > 0 && !snapshot)).then(|| {
        format!(
            "larger rings: {option} {}, or fewer events: {fewer}",
            channel.settings.subbuf_count.saturating_mul(4)
        )
    })
}

#[cfg(test)]
mod tests {
    use piste_control::interface::{Finding, Losses};

    use super::*;
    use crate::summary::tests::{seen, session, with_kernel};

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
        assert!(seen(&lines(&session, Options::OfRecord)).contains("24 were overwritten"));
        session.snapshot = true;
        session.channels[0].discarded_events = 0;
        assert_eq!(lines(&session, Options::OfRecord), "");
    }

    #[test]
    fn a_program_may_claim_any_loss() {
        let mut session = session();
        session.channels[0].discarded_events = i64::MAX;
        assert!(seen(&lines(&session, Options::OfRecord)).contains("(100.0 %)"));
    }

    #[test]
    fn the_remedy_fits_the_reason() {
        let mut session = session();
        let losses = &mut session.channels[0].losses;
        (losses.discarded_full, losses.discarded_too_large) = (0, 24);
        assert!(seen(&lines(&session, Options::OfRecord)).ends_with("try    larger sub-buffers: --subbuf-size 1M\n"));

        let losses = &mut session.channels[0].losses;
        (losses.discarded_too_large, losses.discarded_late) = (0, 24);
        assert!(seen(&lines(&session, Options::OfRecord)).ends_with("24 were not written in time\n"));

        session.channels[0].losses.discarded_full = 24;
        session.findings = vec![Finding {
            what: format!("{CANNOT_WRITE}: no space left on device"),
            count: 1,
        }];
        assert!(seen(&lines(&session, Options::OfRecord)).contains("try    more space on the disk"));
    }

    #[test]
    fn the_kernels_rings_have_options_of_their_own() {
        let mut session = with_kernel();
        session.channels.remove(0);
        let channel = &mut session.channels[0];
        (channel.discarded_events, channel.losses.discarded_full) = (5, 5);
        let seen = |options| seen(&lines(&session, options));
        assert!(seen(Options::OfRecord).contains("kernel channel kernel: 5 events discarded"));
        assert!(seen(Options::OfRecord).contains("--kernel-subbuf-count 256, or fewer"));
        assert!(seen(Options::OfChannel).contains("--num-subbuf 256, or fewer"));
    }
}
