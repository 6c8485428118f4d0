// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a timeline.
//!
//! ```text
//!   magic   leaves and nodes of all lanes, as they became full (tree.rs)   directory   tail
//! ```
//!
//! The directory has the span of time, what the timeline was made of, labels, and each lane with its root. The tail, of a fixed size, says
//! where the directory is. A file without a whole tail is no timeline; whoever writes one gives it its name when it is complete.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crate::lane::{Label, LaneId, Subject};
use crate::piece::{Piece, Summary};
use crate::tree::{Blocks, Branch, Columns, Entry, Output};
use crate::varint::{Reader, put, put_signed};
use crate::{Damaged, Failure};

/// A file of another version has another one.
const MAGIC: [u8; 8] = *b"pisteTL4";
const TAIL_BYTES: usize = 24;
/// Names of a million lanes.
const DIRECTORY_BYTES_MAX: u64 = 1 << 28;
/// A file with more lanes or labels was not written for people: in memory, they would take hundreds of times the room that they have there.
const LANES_MAX: u64 = 1 << 21;

/// Writes a timeline.
pub struct Writer<W> {
    output: Output<W>,
    lanes: Vec<Branch>,
}

/// What of a timeline is known at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// From when to when it is, in nanoseconds.
    pub span_ns: (i64, i64),
    /// What it was made of, in the words of who made it: if that is something else now, the timeline is an old one.
    pub origin: Vec<u8>,
    /// What the numbers in pieces stand for, from 1 on.
    pub labels: Vec<Label>,
    /// By [`LaneId`].
    pub subjects: Vec<Subject>,
}

impl<W: Write> Writer<W> {
    /// Begins one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(to: W) -> io::Result<Writer<W>> {
        let mut output = Output::new(to);
        output.write(&MAGIC)?;
        Ok(Writer {
            output,
            lanes: Vec::new(),
        })
    }

    /// A new lane. What it shows is said at the end.
    pub fn lane(&mut self) -> LaneId {
        self.lanes.push(Branch::default());
        LaneId(self.lanes.len() as u32 - 1)
    }

    /// The next piece of a lane.
    ///
    /// # Errors
    /// It cannot be written.
    #[inline]
    pub fn put(&mut self, lane: LaneId, piece: &Piece) -> io::Result<()> {
        self.lanes[lane.0 as usize].put(piece, &mut self.output)
    }

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be written.
    ///
    /// # Panics
    /// There are other lanes than subjects.
    pub fn finish(self, directory: &Directory) -> io::Result<W> {
        let Writer { mut output, lanes } = self;
        assert_eq!(lanes.len(), directory.subjects.len(), "a subject for each lane");
        let mut bytes = Vec::new();
        put_signed(&mut bytes, directory.span_ns.0);
        put_signed(&mut bytes, directory.span_ns.1);
        put(&mut bytes, directory.origin.len() as u64);
        bytes.extend_from_slice(&directory.origin);
        put(&mut bytes, directory.labels.len() as u64);
        directory.labels.iter().for_each(|label| label.write(&mut bytes));
        put(&mut bytes, lanes.len() as u64);
        for (lane, subject) in lanes.into_iter().zip(&directory.subjects) {
            subject.write(&mut bytes);
            let root = lane.finish(&mut output)?;
            bytes.push(root.is_some().into());
            root.into_iter().for_each(|root| root.write(&mut bytes));
        }
        let at = output.at();
        output.write(&bytes)?;
        output.write(&at.to_le_bytes())?;
        output.write(&(bytes.len() as u64).to_le_bytes())?;
        output.write(&MAGIC)?;
        output.finish()
    }
}

impl Writer<File> {
    /// As [`Timeline::whole`], of what was put so far.
    pub fn whole(&self, lane: LaneId) -> Option<Summary> {
        self.lanes.get(lane.0 as usize).map(Branch::summary)
    }

    /// As [`Timeline::columns`], of what was put so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn columns(&self, lane: LaneId, range_ns: (i64, i64), count: usize) -> Result<Vec<Summary>, Failure> {
        columns(self.lanes.get(lane.0 as usize), &self.output, range_ns, count)
    }

    /// As [`Timeline::pieces`], of what was put so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pieces(&self, lane: LaneId, range_ns: (i64, i64), most: usize) -> Result<Option<Vec<Piece>>, Failure> {
        pieces(self.lanes.get(lane.0 as usize), &self.output, range_ns, most)
    }

    /// As [`Timeline::each`], of what was put so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each(&self, lane: LaneId, range_ns: (i64, i64), to: impl FnMut(Piece) -> bool) -> Result<bool, Failure> {
        each(self.lanes.get(lane.0 as usize), &self.output, range_ns, to)
    }
}

fn columns(
    lane: Option<&Branch>,
    blocks: &impl Blocks,
    range_ns: (i64, i64),
    count: usize,
) -> Result<Vec<Summary>, Failure> {
    let mut sums = vec![Summary::default(); count];
    if let (Some(lane), Some(columns)) = (lane, Columns::of(range_ns, count)) {
        lane.sum(blocks, &columns, &mut sums)?;
    }
    Ok(sums)
}

fn pieces(
    lane: Option<&Branch>,
    blocks: &impl Blocks,
    range_ns: (i64, i64),
    most: usize,
) -> Result<Option<Vec<Piece>>, Failure> {
    let mut pieces = Vec::new();
    let is_all = each(lane, blocks, range_ns, |piece| {
        pieces.push(piece);
        pieces.len() <= most
    })?;
    // Those of devices and interrupts come when they end.
    pieces.sort_by_key(|piece| piece.begin_ns);
    Ok(is_all.then_some(pieces))
}

fn each(
    lane: Option<&Branch>,
    blocks: &impl Blocks,
    range_ns: (i64, i64),
    mut to: impl FnMut(Piece) -> bool,
) -> Result<bool, Failure> {
    lane.map_or(Ok(true), |lane| lane.pieces(blocks, range_ns, &mut to))
}

/// A timeline that can be asked.
#[derive(Debug)]
pub struct Timeline {
    file: File,
    file_bytes: u64,
    /// What is known of all of it.
    pub directory: Directory,
    roots: Roots,
}

/// The roots of lanes, as the file has them: read, they would take ten times the room, and there may be a million.
#[derive(Debug, Default)]
struct Roots {
    bytes: Vec<u8>,
    /// Where the bytes of each lane end; a lane without pieces has none.
    ends: Vec<u32>,
}

impl Roots {
    fn add(&mut self, root: Option<&Entry>) {
        root.into_iter().for_each(|root| root.write(&mut self.bytes));
        // A directory is not longer.
        self.ends.push(self.bytes.len() as u32);
    }

    /// `None`: there is no such lane.
    fn branch(&self, LaneId(lane): LaneId) -> Result<Option<Branch>, Damaged> {
        let place = lane as usize;
        let Some(end) = self.ends.get(place) else {
            return Ok(None);
        };
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let bytes = &self.bytes[begin as usize..*end as usize];
        Ok(Some(match bytes {
            [] => Branch::default(),
            bytes => Branch::of_root(Entry::read(&mut Reader::new(bytes))?),
        }))
    }
}

const _: () = assert!(2 * DIRECTORY_BYTES_MAX < u32::MAX as u64);

impl Timeline {
    /// Opens one.
    ///
    /// # Errors
    /// The file cannot be read, or is no timeline.
    pub fn open(file: File) -> Result<Timeline, Failure> {
        let file_bytes = file.metadata()?.len();
        let tail_at = file_bytes.checked_sub(TAIL_BYTES as u64).ok_or(Damaged)?;
        let mut tail = [0; TAIL_BYTES];
        file.read_exact_at(&mut tail, tail_at)?;
        let word = |index: usize| u64::from_le_bytes(tail[8 * index..][..8].try_into().expect("8 bytes"));
        let (at, bytes) = (word(0), word(1));
        if tail[16..] != MAGIC || bytes > DIRECTORY_BYTES_MAX || at.checked_add(bytes) != Some(tail_at) {
            return Err(Damaged.into());
        }
        let mut directory = vec![0; bytes as usize];
        file.read_exact_at(&mut directory, at)?;
        let (directory, roots) = Timeline::read(&mut Reader::new(&directory))?;
        Ok(Timeline {
            file,
            file_bytes,
            directory,
            roots,
        })
    }

    fn read(reader: &mut Reader<'_>) -> Result<(Directory, Roots), Damaged> {
        let mut directory = Directory {
            span_ns: (reader.signed()?, reader.signed()?),
            ..Directory::default()
        };
        let length = reader.small()?;
        directory.origin = reader.take(length)?.to_vec();
        for _ in 0..few(reader.number()?)? {
            directory.labels.push(Label::read(reader)?);
        }
        let mut roots = Roots::default();
        for _ in 0..few(reader.number()?)? {
            directory.subjects.push(Subject::read(reader)?);
            let root = match reader.byte()? {
                0 => None,
                _ => Some(Entry::read(reader)?),
            };
            roots.add(root.as_ref());
        }
        Ok((directory, roots))
    }

    /// All that is in a lane; `None`: there is no such lane.
    pub fn whole(&self, lane: LaneId) -> Option<Summary> {
        let branch = self.roots.branch(lane).ok()??;
        Some(branch.summary())
    }

    /// What a lane has in each of so many columns of the same width between two times. A piece counts where it begins.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn columns(&self, lane: LaneId, range_ns: (i64, i64), count: usize) -> Result<Vec<Summary>, Failure> {
        columns(self.roots.branch(lane)?.as_ref(), &self.blocks(), range_ns, count)
    }

    /// The pieces of a lane that lie between two times at least in part, in the order of their begins; `None` if there are more than `most`.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn pieces(&self, lane: LaneId, range_ns: (i64, i64), most: usize) -> Result<Option<Vec<Piece>>, Failure> {
        pieces(self.roots.branch(lane)?.as_ref(), &self.blocks(), range_ns, most)
    }

    /// Hands out the pieces of a lane that lie between two times at least in part, in about the order of their begins, until `to` returns `false`.
    /// Returns whether these were all.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn each(&self, lane: LaneId, range_ns: (i64, i64), to: impl FnMut(Piece) -> bool) -> Result<bool, Failure> {
        each(self.roots.branch(lane)?.as_ref(), &self.blocks(), range_ns, to)
    }

    /// What a number in a piece stands for.
    pub fn label(&self, number: u32) -> Option<&Label> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.directory.labels.get(place)
    }

    fn blocks(&self) -> Bounded<'_> {
        Bounded {
            file: &self.file,
            left_bytes: Cell::new(self.file_bytes),
        }
    }
}

fn few(count: u64) -> Result<u64, Damaged> {
    Some(count).filter(|count| *count <= LANES_MAX).ok_or(Damaged)
}

/// Reads no more than the file has: in a whole one, nothing is read twice for one answer.
struct Bounded<'f> {
    file: &'f File,
    left_bytes: Cell<u64>,
}

impl Blocks for Bounded<'_> {
    fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
        let left_bytes = self.left_bytes.get().checked_sub(bytes as u64).ok_or(Damaged)?;
        self.left_bytes.set(left_bytes);
        let mut block = vec![0; bytes];
        self.file
            .read_exact_at(&mut block, at)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Damaged.into(),
                _ => Failure::from(error),
            })?;
        Ok(block)
    }
}
