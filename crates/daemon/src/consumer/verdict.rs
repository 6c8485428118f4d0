// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a packet goes into the trace, after its records were checked. Pure: the bytes are elsewhere.
//!
//! The good records stay, up to the first fault. A packet of which nothing is left is still written, without records, so that
//! the sequence numbers show no loss that was not one, and what was damaged is counted as discarded.

use piste_ctf::Checked;
use piste_ctf::packet::HEADER_BYTES;

use super::stream::PacketFacts;

/// A packet that was taken out of a ring and checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) sequence: u64,
    /// When the program says that it began.
    pub(super) begin_ticks: u64,
    pub(super) checked: Checked,
    /// Records that the program committed.
    pub(super) committed: u32,
}

#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// What the packet says of itself, but for the discarded events.
    pub(super) facts: PacketFacts,
    /// Records that are left out.
    pub(super) missing: u32,
    /// Why, when some are.
    pub(super) fault: Option<String>,
}

impl Found {
    /// Judges the packet; the one before it in the stream ended at `earliest_ticks`.
    pub(super) fn judge(&self, earliest_ticks: u64) -> Verdict {
        let Found {
            sequence,
            mut begin_ticks,
            checked,
            committed,
        } = *self;
        let mut fault = checked.fault.map(|fault| fault.to_string());
        let mut records = checked.records;
        if begin_ticks < earliest_ticks {
            fault = Some(format!(
                "it begins at {begin_ticks}, but the packet before it ends at {earliest_ticks}"
            ));
            records = 0;
        }
        let mut end_ticks = checked.last_ticks;
        if records == 0 {
            if fault.is_some() {
                // The program's time may be any; nothing stands on it.
                begin_ticks = earliest_ticks;
            }
            end_ticks = begin_ticks;
        }
        let content_bytes = if records == 0 {
            HEADER_BYTES
        } else {
            checked.content_bytes as usize
        };
        let missing = committed.saturating_sub(records).max(fault.is_some().into());
        if missing > 0 && fault.is_none() {
            fault = Some(format!(
                "{committed} records are committed, but only {records} are there"
            ));
        }
        let facts = PacketFacts {
            sequence,
            begin_ticks,
            end_ticks,
            content_bytes,
            events: records.into(),
            discarded: 0,
        };
        Verdict { facts, missing, fault }
    }
}

#[cfg(test)]
mod tests {
    use piste_ctf::{Fault, Wrong};

    use super::*;

    const GOOD: Checked = Checked {
        content_bytes: 200,
        records: 5,
        last_ticks: 1_500,
        fault: None,
    };
    const FAULT: Option<Fault> = Some(Fault {
        offset: 200,
        what: Wrong::UnknownEvent { id: 9 },
    });

    fn judge(begin_ticks: u64, checked: Checked, committed: u32) -> Verdict {
        Found {
            sequence: 7,
            begin_ticks,
            checked,
            committed,
        }
        .judge(1_000)
    }

    fn facts(begin_ticks: u64, end_ticks: u64, content_bytes: usize, events: u64) -> PacketFacts {
        PacketFacts {
            sequence: 7,
            begin_ticks,
            end_ticks,
            content_bytes,
            events,
            discarded: 0,
        }
    }

    #[test]
    fn good_packet_is_written_whole() {
        assert_eq!(
            judge(1_000, GOOD, 5),
            Verdict {
                facts: facts(1_000, 1_500, 200, 5),
                missing: 0,
                fault: None
            }
        );
    }

    #[test]
    fn records_before_a_fault_stay_and_the_rest_is_counted() {
        let verdict = judge(1_200, Checked { fault: FAULT, ..GOOD }, 8);
        assert_eq!(verdict.facts, facts(1_200, 1_500, 200, 5));
        assert_eq!(verdict.missing, 3);
        assert_eq!(verdict.fault.unwrap(), "offset 200: the channel has no event with id 9");
        assert_eq!(
            judge(1_200, Checked { fault: FAULT, ..GOOD }, 0).missing,
            1,
            "a fault is at least one record"
        );
    }

    #[test]
    fn packet_of_which_nothing_is_good_stays_as_an_empty_one() {
        let nothing = Checked {
            content_bytes: 88,
            records: 0,
            last_ticks: u64::MAX,
            fault: FAULT,
        };
        let verdict = judge(u64::MAX, nothing, 4);
        assert_eq!(
            (verdict.facts, verdict.missing),
            (facts(1_000, 1_000, HEADER_BYTES, 0), 4)
        );
        let verdict = judge(999, GOOD, 5);
        assert_eq!(
            (verdict.facts, verdict.missing),
            (facts(1_000, 1_000, HEADER_BYTES, 0), 5)
        );
        assert!(verdict.fault.unwrap().contains("but the packet before it ends"));
    }

    #[test]
    fn packet_without_records_keeps_its_time() {
        let empty = Checked {
            content_bytes: 88,
            records: 0,
            last_ticks: 1_300,
            fault: None,
        };
        let verdict = judge(1_300, empty, 0);
        assert_eq!(
            verdict,
            Verdict {
                facts: facts(1_300, 1_300, HEADER_BYTES, 0),
                missing: 0,
                fault: None
            }
        );
        assert_eq!(judge(1_300, empty, 2).missing, 2);
    }
}
