// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace lacks: how much, why, and which options would have kept it.

use piste_control::interface::{ChannelStatus, SessionStatus};

use crate::quantity::{count, counted, size};
use crate::screen::{BAD, printable, styled};
use crate::summary::labelled;

/// A line for each channel that lost something, and what helps.
pub(crate) fn lines(status: &SessionStatus) -> String {
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

/// ``12,345 events discarded, 2 packets lost``, if anything is missing.
pub(crate) fn missing(discarded_events: i64, lost_packets: i64) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use piste_control::interface::Losses;

    use super::*;
    use crate::summary::tests::{seen, session};

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
        assert!(seen(&lines(&session)).contains("24 were overwritten"));
        session.snapshot = true;
        session.channels[0].discarded_events = 0;
        assert_eq!(lines(&session), "");
    }

    #[test]
    fn the_remedy_fits_the_reason() {
        let mut session = session();
        let losses = &mut session.channels[0].losses;
        (losses.discarded_full, losses.discarded_too_large) = (0, 24);
        assert!(seen(&lines(&session)).ends_with("try    larger sub-buffers: --subbuf-size 1M\n"));

        let losses = &mut session.channels[0].losses;
        (losses.discarded_too_large, losses.discarded_late) = (0, 24);
        assert!(seen(&lines(&session)).ends_with("24 took too long to write\n"));
    }
}
