// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many events of a trace are missing, and when.

use piste_trace::Trace;

use crate::quantity::counted;

/// All losses that the packets of the traces report.
#[derive(Debug, Default)]
pub(super) struct Losses(Vec<Loss>);

#[derive(Debug)]
struct Loss {
    /// When the tracer reported it; absent: the packet does not say.
    ns: Option<i64>,
    /// Absent: unknown.
    events: Option<u64>,
    packets: u64,
}

/// What a part of time has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    events: u64,
    packets: u64,
    /// There are more, and nobody knows how many.
    is_more: bool,
}

impl Losses {
    pub(super) fn of(traces: &[Trace]) -> Losses {
        let mut losses = Vec::new();
        for (trace, stream) in traces
            .iter()
            .flat_map(|trace| trace.streams.iter().map(move |stream| (trace, stream)))
        {
            let at = |cycles: Option<u64>| trace.scale(stream)?.nanoseconds(cycles?);
            for loss in &stream.losses {
                let packet = stream.packets.get(loss.packet as usize);
                // The first packet counts from the beginning of the ring, which may be long before the trace.
                let is_counted = loss.packet > 0;
                losses.push(Loss {
                    ns: packet.and_then(|packet| at(packet.end)),
                    events: is_counted.then_some(loss.discarded_events),
                    packets: loss.lost_packets,
                });
            }
            if stream.missing_packets > 0 {
                losses.push(Loss {
                    ns: stream.packets.last().and_then(|packet| at(packet.end)),
                    events: None,
                    packets: stream.missing_packets,
                });
            }
        }
        Losses(losses)
    }

    /// What was reported after `begin_ns` and up to `end_ns`. What has no time counts everywhere.
    pub(super) fn between(&self, begin_ns: i64, end_ns: i64) -> Lost {
        let mut lost = Lost::default();
        let is_in = |loss: &&Loss| loss.ns.is_none_or(|ns| ns > begin_ns && ns <= end_ns);
        for loss in self.0.iter().filter(is_in) {
            lost.events += loss.events.unwrap_or(0);
            lost.packets += loss.packets;
            // Packets that are missing had events that nobody has counted.
            lost.is_more |= loss.events.is_none() || loss.packets > 0;
        }
        lost
    }

    /// Of everything that was read.
    pub(super) fn all(&self) -> Lost {
        self.between(i64::MIN, i64::MAX)
    }
}

impl Lost {
    pub(super) fn is_nothing(self) -> bool {
        self == Lost::default()
    }

    /// Absent: unknown.
    pub(super) fn events(self) -> Option<u64> {
        (!self.is_more).then_some(self.events)
    }

    pub(super) fn packets(self) -> u64 {
        self.packets
    }

    /// `none`, `12 events`, `12 events and an unknown number more`
    pub(super) fn text(self) -> String {
        let known = || counted(i64::try_from(self.events).unwrap_or(i64::MAX), "event");
        match (self.events, self.is_more) {
            (0, false) => "none".into(),
            (_, false) => known(),
            (0, true) => "events, an unknown number".into(),
            (_, true) => format!("{} and an unknown number more", known()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_counted_is_unknown_and_not_nothing() {
        let loss = |ns, events, packets| Loss { ns, events, packets };
        let losses = Losses(vec![
            loss(Some(10), Some(5), 0),
            loss(Some(20), Some(7), 0),
            loss(Some(30), None, 0),
            loss(Some(40), Some(0), 2),
        ]);
        let shown = |begin_ns, end_ns| {
            let lost = losses.between(begin_ns, end_ns);
            (lost.text(), lost.events())
        };
        assert_eq!(shown(0, 9), ("none".into(), Some(0)));
        assert_eq!(shown(0, 20), ("12 events".into(), Some(12)));
        assert_eq!(shown(10, 20), ("7 events".into(), Some(7)));
        assert_eq!(shown(20, 30), ("events, an unknown number".into(), None));
        assert_eq!(losses.all().text(), "12 events and an unknown number more");
        assert_eq!(losses.all().packets(), 2);
    }
}
