// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stream's files do not say of it and the next consumer has to know: how many events it has, what was lost until then, and
//! records that wait for the next page.
//!
//! A stream grows in steps, most of which write one packet. Before a step the tally notes how the stream stands before and after it; the
//! index file says whether the step's packet is on disk, and with that which of the two is true.
//!
//! The file has two slots, used in turn: a note that was cut short by a kill leaves the one before it, whose step is done.
//!
//! | offset in a slot | bytes | what |
//! |---|---|---|
//! | 0 | 8 | bytes of the note |
//! | 8 | 8 | number of the step, from 1 |
//! | 16 | 8 | sequence number of the step's packet, and 1; 0 for a step without a packet |
//! | 24 | | how it stands before, then after: five numbers of 8 bytes (events, damaged, lost, lost earlier, bytes kept), what is kept |
//! | end - 8 | 8 | the number of the step again |

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::consumer::storage::{At, StorageError};
use crate::consumer::stream::End;

/// Where the second slot begins; the file has holes.
const SLOT_BYTES: u64 = 1 << 24;
/// What a note can have.
const NOTE_BYTES_MAX: u64 = 1 << 22;

/// How a stream stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// In its packets.
    pub(super) events: u64,
    /// Records that could not be made into events.
    pub(super) damaged: u64,
    /// Events that the kernel lost.
    pub(super) lost: u64,
    /// Of these, in instances that are gone.
    pub(super) lost_earlier: u64,
    /// Records that wait for the next page.
    pub(super) kept: Vec<u8>,
}

/// One step, as it was noted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) number: u64,
    /// The packet that it writes.
    pub(super) packet: Option<u64>,
    pub(super) before: Standing,
    pub(super) after: Standing,
}

impl Step {
    /// Whether packets were written before it that a stream with this end does not have.
    pub(super) fn is_gone(&self, end: &End) -> bool {
        let has_fewer = self.packet.is_some_and(|packet| end.next_sequence < packet);
        has_fewer || end.packets == 0 && self.before.events > end.start.events
    }
}

#[derive(Debug)]
pub(super) struct Tally {
    path: PathBuf,
    file: File,
    last: Step,
}

impl Tally {
    /// Opens the tally, or begins one.
    ///
    /// # Errors
    /// The file that cannot be opened or read.
    pub(super) fn open(path: &Path) -> Result<Tally, StorageError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).at(path)?;
        let first = read_slot(&file, 0).at(path)?;
        let second = read_slot(&file, 1).at(path)?;
        let last = [first, second].into_iter().flatten().max_by_key(|step| step.number);
        Ok(Tally {
            path: path.into(),
            file,
            last: last.unwrap_or_default(),
        })
    }

    /// The last step that was begun.
    pub(super) fn last(&self) -> &Step {
        &self.last
    }

    /// How the stream stands, whose next packet is `next_sequence`. A step without a packet is done unless its page is in hand still.
    pub(super) fn standing(&self, next_sequence: u64, page_in_hand: bool) -> &Standing {
        let is_done = match self.last.packet {
            Some(packet) => next_sequence > packet,
            None => !page_in_hand,
        };
        if is_done { &self.last.after } else { &self.last.before }
    }

    /// Notes a step that is about to be made, and returns its number.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn begin(
        &mut self,
        packet: Option<u64>,
        before: &Standing,
        after: &Standing,
    ) -> Result<u64, StorageError> {
        let step = Step {
            number: self.last.number + 1,
            packet,
            before: before.clone(),
            after: after.clone(),
        };
        let offset = slot(step.number) * SLOT_BYTES;
        self.file.write_all_at(&encode(&step), offset).at(&self.path)?;
        self.last = step;
        Ok(self.last.number)
    }
}

fn slot(number: u64) -> u64 {
    number % 2
}

fn encode(step: &Step) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    let mut put = |value: u64| bytes.extend(value.to_le_bytes());
    put(step.number);
    put(step.packet.map_or(0, |packet| packet + 1));
    for standing in [&step.before, &step.after] {
        let kept_bytes = standing.kept.len() as u64;
        for value in [
            standing.events,
            standing.damaged,
            standing.lost,
            standing.lost_earlier,
            kept_bytes,
        ] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(&standing.kept);
    }
    bytes.extend(step.number.to_le_bytes());
    let length = bytes.len() as u64;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The note in a slot; `None` when there is none that is whole.
fn read_slot(file: &File, slot: u64) -> io::Result<Option<Step>> {
    let offset = slot * SLOT_BYTES;
    let mut length = [0; 8];
    if file.read_at(&mut length, offset)? < length.len() {
        return Ok(None);
    }
    let length = u64::from_le_bytes(length);
    if length > NOTE_BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = vec![0; length as usize];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn decode(bytes: &[u8]) -> Option<Step> {
    let mut rest = bytes.get(8..)?;
    let number = take_number(&mut rest)?;
    let packet = take_number(&mut rest)?.checked_sub(1);
    let before = take_standing(&mut rest)?;
    let after = take_standing(&mut rest)?;
    let is_whole = number > 0 && take_number(&mut rest)? == number && rest.is_empty();
    is_whole.then_some(Step {
        number,
        packet,
        before,
        after,
    })
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (number, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u64::from_le_bytes(*number))
}

fn take_standing(rest: &mut &[u8]) -> Option<Standing> {
    let events = take_number(rest)?;
    let damaged = take_number(rest)?;
    let lost = take_number(rest)?;
    let lost_earlier = take_number(rest)?;
    let kept_bytes = usize::try_from(take_number(rest)?).ok()?;
    let (kept, tail) = rest.split_at_checked(kept_bytes)?;
    *rest = tail;
    Some(Standing {
        events,
        damaged,
        lost,
        lost_earlier,
        kept: kept.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(events: u64, kept: &[u8]) -> Standing {
        Standing {
            events,
            damaged: 1,
            lost: 2,
            lost_earlier: 3,
            kept: kept.to_vec(),
        }
    }

    #[test]
    fn packet_on_disk_says_which_standing_is_true() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tally");
        let (before, after) = (standing(10, b"kept"), standing(15, b""));
        Tally::open(&path).unwrap().begin(Some(4), &before, &after).unwrap();
        let tally = Tally::open(&path).unwrap();
        assert_eq!(tally.last().number, 1);
        for page_in_hand in [false, true] {
            assert_eq!(*tally.standing(4, page_in_hand), before);
            assert_eq!(*tally.standing(5, page_in_hand), after);
        }
    }

    #[test]
    fn step_without_a_packet_is_done_when_its_page_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut tally = Tally::open(&folder.path().join("tally")).unwrap();
        assert_eq!(*tally.standing(0, false), Standing::default());
        let (before, after) = (standing(10, b""), standing(10, b"kept"));
        tally.begin(None, &before, &after).unwrap();
        assert_eq!((tally.standing(7, true), tally.standing(7, false)), (&before, &after));
    }

    #[test]
    fn note_cut_short_anywhere_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tally");
        let step = Step {
            number: 3,
            packet: Some(2),
            before: standing(3, b"abc"),
            after: standing(4, b"defg"),
        };
        let bytes = encode(&step);
        for cut in 0..=bytes.len() {
            let mut tally = Tally::open(&path).unwrap();
            tally.last.number = 0;
            tally
                .begin(
                    Some(0),
                    &standing(1, b"a longer one that"),
                    &standing(2, b"is written over"),
                )
                .unwrap();
            tally.begin(Some(1), &standing(2, b""), &standing(3, b"abc")).unwrap();
            tally.file.write_all_at(&bytes[..cut], SLOT_BYTES).unwrap();
            drop(tally);
            let tally = Tally::open(&path).unwrap();
            // What is cut off the last number may be as it was before.
            let may_be_whole = cut > bytes.len() - 8;
            let number = tally.last().number;
            assert!(
                number == 2 || may_be_whole && number == 3,
                "step {number}, cut at {cut}"
            );
            assert_eq!(*tally.standing(2, false), standing(3, b"abc"));
        }
    }
}
