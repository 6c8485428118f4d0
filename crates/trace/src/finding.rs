// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is not as it should be in a trace: counted, located, and never a reason to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Metadata that is cut, or wrong in a part; events of the classes that it describes there are not read.
    DamagedMetadata,
    /// Events that the tracer discarded, for want of space.
    DiscardedEvents,
    /// Packets that are missing between two others.
    LostPackets,
    /// A packet whose start is none.
    DamagedPacket,
    /// The rest of a packet cannot be read.
    DamagedEvent,
    /// A file that ends inside a packet.
    CutFile,
    /// An event that is earlier than the one before it in its stream.
    TimeGoesBack,
    /// A packet of a class of streams that the metadata does not have.
    UnknownStream,
    /// An event of a class that the metadata does not have.
    UnknownEvent,
    /// A packet of another trace.
    OtherTrace,
    /// A CPU whose events begin late or end early.
    Unrecorded,
    /// Packets that a file has lost at its end, as the index tells that the tracer wrote beside it. The sentence says how many there are.
    MissingPackets,
    /// The index that the tracer wrote beside a stream is missing, cut or wrong, so that nobody knows whether packets are missing at the end.
    DamagedIndex,
    /// The tracer could not write for a while, and events are missing for that reason.
    WriteError,
    /// A trace that was recorded with another one, and is not beside it.
    MissingTrace,
    /// A file that cannot be read.
    UnreadableFile,
    /// Packets that another of the traces has as well. The sentence says how many there are; they are of a trace, and of no place in a file.
    RepeatedPackets,
}

impl Kind {
    /// Something is missing, or may be; the tracer has not counted it.
    pub fn is_damage(self) -> bool {
        use Kind::{DiscardedEvents, LostPackets, OtherTrace, RepeatedPackets, TimeGoesBack};
        !matches!(
            self,
            DiscardedEvents | LostPackets | OtherTrace | RepeatedPackets | TimeGoesBack
        )
    }
}

/// Where something is not as it should be, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The file.
    pub file: PathBuf,
    /// How often, or how many events or packets.
    pub count: u64,
    /// Byte of the file where it is first.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// A sentence about the first.
    pub what: String,
}

impl Finding {
    /// Where it is in its file, as the end of a sentence; nothing about a whole file. `counted` writes a number.
    pub fn place(&self, counted: impl FnOnce(u64) -> String) -> String {
        use Kind::{
            DamagedIndex, DamagedMetadata, MissingPackets, MissingTrace, RepeatedPackets, UnreadableFile, WriteError,
        };
        let Finding { count, offset, .. } = *self;
        match self.kind {
            RepeatedPackets | DamagedIndex | MissingTrace | WriteError => String::new(),
            DamagedMetadata | UnreadableFile | MissingPackets if offset == 0 => String::new(),
            MissingPackets => format!(", at byte {offset}"),
            _ if count == 1 => format!(", at byte {offset}"),
            _ => format!(", {} times, first at byte {offset}", counted(count)),
        }
    }
}

/// Findings of a trace, one for each kind and file.
#[derive(Clone, Debug, Default)]
pub struct Findings(BTreeMap<(PathBuf, Kind), Finding>);

impl Findings {
    /// Counts one. What a damaged trace counts may be any number: sums end at the largest one.
    pub fn add(&mut self, finding: Finding) {
        let key = (finding.file.clone(), finding.kind);
        match self.0.get_mut(&key) {
            Some(known) => known.count = known.count.saturating_add(finding.count),
            None => {
                self.0.insert(key, finding);
            }
        }
    }

    /// With those of others.
    pub fn extend(&mut self, others: Findings) {
        others.0.into_values().for_each(|finding| self.add(finding));
    }

    /// By file, then kind.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.values()
    }

    /// Sum of the counts of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        self.iter()
            .filter(|finding| finding.kind == kind)
            .fold(0, |sum, finding| sum.saturating_add(finding.count))
    }

    /// Nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_end_at_the_largest_number() {
        let mut findings = Findings::default();
        for file in ["a", "a", "b"] {
            findings.add(Finding {
                kind: Kind::DiscardedEvents,
                file: file.into(),
                count: u64::MAX - 1,
                offset: 0,
                what: String::new(),
            });
        }
        assert_eq!(findings.count(Kind::DiscardedEvents), u64::MAX);
        assert_eq!(findings.iter().count(), 2);
    }
}
