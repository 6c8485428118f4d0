// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pieces of a lane as a tree in a file: leaves of pieces, and nodes with a summary of each leaf or node below them. Each is written when it
//! is full, so a lane takes as much memory as its open leaf and its open nodes.
//!
//! Who asks for a range reads the nodes on its way: what lies within one column of the answer is taken from its summary, so an answer costs
//! what its columns cost, however many pieces they have.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crate::piece::{Leaf, Piece, Pieces, Summary};
use crate::varint::{Reader, put};
use crate::{Damaged, Failure};

/// Decoding as many pieces takes a microsecond.
const PIECES_OF_LEAF: u64 = 128;
const ENTRIES_OF_NODE: u32 = 64;
/// With that many nodes above each other, a lane has more pieces than a file can have.
const HEIGHT_MAX: u64 = 10;
/// More than any leaf or node has.
const BYTES_MAX: u64 = 1 << 20;

/// Where a leaf or node is in the file, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) summary: Summary,
    at: u64,
    bytes: u64,
    /// A leaf has none.
    height: u64,
}

impl Entry {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        self.summary.write(bytes);
        put(bytes, self.at);
        put(bytes, self.bytes);
        put(bytes, self.height);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Entry, Damaged> {
        Ok(Entry {
            summary: Summary::read(reader)?,
            at: reader.number()?,
            bytes: Some(reader.number()?)
                .filter(|bytes| *bytes <= BYTES_MAX)
                .ok_or(Damaged)?,
            height: Some(reader.number()?)
                .filter(|height| *height <= HEIGHT_MAX)
                .ok_or(Damaged)?,
        })
    }
}

/// As much is written at once.
const BUFFER_BYTES: usize = 1 << 18;

/// A file that is written from its begin to its end, and read meanwhile.
pub(crate) struct Output<W> {
    to: W,
    written: u64,
    /// What comes behind that.
    buffer: Vec<u8>,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(to: W) -> Output<W> {
        Output {
            to,
            written: 0,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
        }
    }

    /// Where the next bytes will be.
    pub(crate) fn at(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, bytes: &[u8], summary: Summary, height: u64) -> io::Result<Entry> {
        let at = self.at();
        self.write(bytes)?;
        Ok(Entry {
            summary,
            at,
            bytes: bytes.len() as u64,
            height,
        })
    }
}

impl Blocks for Output<File> {
    fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
        let Some(place) = at.checked_sub(self.written) else {
            let mut block = vec![0; bytes];
            self.to.read_exact_at(&mut block, at)?;
            return Ok(block);
        };
        let place = usize::try_from(place).map_err(|_| Damaged)?;
        let part = self.buffer.get(place..).and_then(|rest| rest.get(..bytes));
        Ok(part.ok_or(Damaged)?.to_vec())
    }
}

/// An open node.
#[derive(Debug, Default)]
struct Node {
    bytes: Vec<u8>,
    count: u32,
    summary: Summary,
    /// The only one so far.
    only: Option<Entry>,
}

/// A lane that grows.
#[derive(Debug, Default)]
pub(crate) struct Branch {
    leaf: Leaf,
    /// The nodes above leaves, above those, and so on.
    nodes: Vec<Node>,
}

impl Branch {
    pub(crate) fn put<W: Write>(&mut self, piece: &Piece, output: &mut Output<W>) -> io::Result<()> {
        self.leaf.put(piece);
        if self.leaf.summary.count < PIECES_OF_LEAF {
            return Ok(());
        }
        self.end_leaf(output)
    }

    fn end_leaf<W: Write>(&mut self, output: &mut Output<W>) -> io::Result<()> {
        let Leaf { mut bytes, summary, .. } = std::mem::take(&mut self.leaf);
        let entry = output.entry(&bytes, summary, 0)?;
        // The next one takes the same memory.
        bytes.clear();
        self.leaf.bytes = bytes;
        self.add(entry, output)
    }

    fn add<W: Write>(&mut self, mut entry: Entry, output: &mut Output<W>) -> io::Result<()> {
        for level in 0.. {
            self.put_entry(level, entry);
            let node = &mut self.nodes[level];
            if node.count < ENTRIES_OF_NODE {
                break;
            }
            entry = node.end(level, output)?;
        }
        Ok(())
    }

    fn put_entry(&mut self, level: usize, entry: Entry) {
        if self.nodes.len() == level {
            self.nodes.push(Node::default());
        }
        self.nodes[level].put(entry);
    }

    /// The whole lane; absent: it has no pieces.
    pub(crate) fn finish<W: Write>(mut self, output: &mut Output<W>) -> io::Result<Option<Entry>> {
        if self.leaf.summary.count > 0 {
            self.end_leaf(output)?;
        }
        let mut level = 0;
        while let Some(node) = self.nodes.get_mut(level) {
            let is_empty = node.count == 0;
            let only = node.only.take();
            if only.is_some() && level + 1 == self.nodes.len() {
                return Ok(only);
            }
            if !is_empty {
                let entry = self.nodes[level].end(level, output)?;
                self.put_entry(level + 1, entry);
            }
            level += 1;
        }
        Ok(None)
    }

    /// A lane that was finished.
    pub(crate) fn of_root(root: Entry) -> Branch {
        let mut node = Node::default();
        node.put(root);
        Branch {
            leaf: Leaf::default(),
            nodes: vec![node],
        }
    }

    /// All that is in it so far.
    pub(crate) fn summary(&self) -> Summary {
        let mut all = Summary::default();
        let parts = self.nodes.iter().rev().map(|node| &node.summary);
        parts.chain([&self.leaf.summary]).for_each(|part| all.merge(part));
        all
    }

    /// What is closed, in the order of time.
    fn closed(&self) -> Result<Vec<Entry>, Damaged> {
        let mut closed = Vec::new();
        for node in self.nodes.iter().rev() {
            let mut reader = Reader::new(&node.bytes);
            while !reader.is_over() {
                closed.push(Entry::read(&mut reader)?);
            }
        }
        Ok(closed)
    }

    /// Adds what is in each column.
    pub(crate) fn sum(&self, blocks: &impl Blocks, columns: &Columns, sums: &mut [Summary]) -> Result<(), Failure> {
        for entry in self.closed()? {
            entry.sum(blocks, columns, sums)?;
        }
        let mut last = Place::default();
        for piece in Pieces::new(&self.leaf.bytes) {
            add(&piece?, columns, &mut last, sums);
        }
        Ok(())
    }

    /// As [`Entry::pieces`].
    pub(crate) fn pieces(
        &self,
        blocks: &impl Blocks,
        range_ns: (i64, i64),
        to: &mut impl FnMut(Piece) -> bool,
    ) -> Result<bool, Failure> {
        for entry in self.closed()? {
            if !entry.pieces(blocks, range_ns, to)? {
                return Ok(false);
            }
        }
        hand_out(&self.leaf.bytes, range_ns, to)
    }
}

impl Node {
    fn put(&mut self, entry: Entry) {
        self.summary.merge(&entry.summary);
        entry.write(&mut self.bytes);
        self.count += 1;
        self.only = Some(entry).filter(|_| self.count == 1);
    }

    /// Writes it; it is empty then.
    fn end<W: Write>(&mut self, level: usize, output: &mut Output<W>) -> io::Result<Entry> {
        let node = std::mem::take(self);
        output.entry(&node.bytes, node.summary, level as u64 + 1)
    }
}

/// A file from which leaves and nodes are read.
pub(crate) trait Blocks {
    /// So many bytes at a place.
    fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, Failure>;
}

/// A part of time, cut into columns of the same width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) count: usize,
}

impl Columns {
    /// Absent: there is nothing to cut, or into no columns.
    pub(crate) fn of((begin_ns, end_ns): (i64, i64), count: usize) -> Option<Columns> {
        let columns = Columns {
            begin_ns,
            end_ns,
            count,
        };
        (count > 0 && begin_ns < end_ns).then_some(columns)
    }

    /// Where a column begins; the one behind the last begins at the end.
    pub(crate) fn begin_of(&self, column: usize) -> i64 {
        let whole = self.end_ns.abs_diff(self.begin_ns);
        let offset = match whole.checked_mul(column as u64) {
            Some(product) => product / self.count as u64,
            None => (u128::from(whole) * column as u128 / self.count as u128) as u64,
        };
        self.begin_ns.wrapping_add_unsigned(offset)
    }

    fn place(&self, column: usize) -> Place {
        Place {
            column,
            begin_ns: self.begin_of(column),
            end_ns: self.begin_of(column + 1),
        }
    }

    /// The column in which a time within the part lies: the last one that begins before it or then.
    fn at(&self, ns: i64) -> usize {
        let whole = self.end_ns.abs_diff(self.begin_ns).max(1);
        let before = u128::from(ns.abs_diff(self.begin_ns)) + 1;
        let product = before * self.count as u128;
        // A division of 128 bits takes many times as long, and only very long parts need it.
        let behind = match u64::try_from(product) {
            Ok(product) => product.div_ceil(whole),
            Err(_) => product.div_ceil(whole.into()) as u64,
        };
        (behind as usize).clamp(1, self.count) - 1
    }
}

impl Entry {
    fn span_ns(&self) -> (i64, i64) {
        self.summary.span_ns.unwrap_or_default()
    }

    fn is_within(&self, begin_ns: i64, end_ns: i64) -> bool {
        let (own_begin_ns, own_end_ns) = self.span_ns();
        touches(own_begin_ns, own_end_ns, begin_ns, end_ns)
    }

    fn block(&self, blocks: &impl Blocks) -> Result<Vec<u8>, Failure> {
        blocks.read(self.at, self.bytes as usize)
    }

    /// The leaves and nodes right below it.
    fn below(&self, blocks: &impl Blocks) -> Result<Vec<Entry>, Failure> {
        let bytes = self.block(blocks)?;
        let mut reader = Reader::new(&bytes);
        let mut below = Vec::new();
        while !reader.is_over() {
            let entry = Entry::read(&mut reader)?;
            if entry.height >= self.height {
                return Err(Damaged.into());
            }
            below.push(entry);
        }
        Ok(below)
    }

    /// Adds what is in each column.
    pub(crate) fn sum(&self, blocks: &impl Blocks, columns: &Columns, sums: &mut [Summary]) -> Result<(), Failure> {
        if !self.is_within(columns.begin_ns, columns.end_ns) {
            return Ok(());
        }
        let (begin_ns, end_ns) = self.span_ns();
        if begin_ns >= columns.begin_ns && begin_ns < columns.end_ns {
            let column = columns.at(begin_ns);
            if end_ns <= columns.begin_of(column + 1) {
                sums[column].merge(&self.summary);
                return Ok(());
            }
        }
        if self.height > 0 {
            return self
                .below(blocks)?
                .iter()
                .try_for_each(|entry| entry.sum(blocks, columns, sums));
        }
        let mut last = Place::default();
        for piece in Pieces::new(&self.block(blocks)?) {
            add(&piece?, columns, &mut last, sums);
        }
        Ok(())
    }

    /// Hands out the pieces that lie in a part of time at least in part, in about the order of their begins. `false` ends it.
    pub(crate) fn pieces(
        &self,
        blocks: &impl Blocks,
        (begin_ns, end_ns): (i64, i64),
        to: &mut impl FnMut(Piece) -> bool,
    ) -> Result<bool, Failure> {
        if !self.is_within(begin_ns, end_ns) {
            return Ok(true);
        }
        if self.height > 0 {
            for entry in self.below(blocks)? {
                if !entry.pieces(blocks, (begin_ns, end_ns), to)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        hand_out(&self.block(blocks)?, (begin_ns, end_ns), to)
    }
}

/// The pieces of a leaf.
fn hand_out(leaf: &[u8], (begin_ns, end_ns): (i64, i64), to: &mut impl FnMut(Piece) -> bool) -> Result<bool, Failure> {
    for piece in Pieces::new(leaf) {
        let piece = piece?;
        if touches(piece.begin_ns, piece.end_ns, begin_ns, end_ns) && !to(piece) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Both have something in common, be it that one without a length lies in the other.
pub(crate) fn touches(begin_ns: i64, end_ns: i64, from_ns: i64, until_ns: i64) -> bool {
    begin_ns < until_ns && (end_ns > from_ns || begin_ns == end_ns && begin_ns == from_ns)
}

/// A column, and from when to when it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    column: usize,
    begin_ns: i64,
    end_ns: i64,
}

impl Place {
    fn has(&self, ns: i64) -> bool {
        (self.begin_ns..self.end_ns).contains(&ns)
    }
}

/// Adds the parts of a piece to the columns where they lie. `last` is where the one before it ends: most begin in the same column.
pub(crate) fn add(piece: &Piece, columns: &Columns, last: &mut Place, sums: &mut [Summary]) {
    if !touches(piece.begin_ns, piece.end_ns, columns.begin_ns, columns.end_ns) {
        return;
    }
    let from_ns = piece.begin_ns.max(columns.begin_ns);
    if !last.has(from_ns) {
        *last = columns.place(columns.at(from_ns));
    }
    loop {
        let sum = &mut sums[last.column];
        sum.count += u64::from(last.has(piece.begin_ns));
        sum.add_part(piece, piece.begin_ns.max(last.begin_ns), piece.end_ns.min(last.end_ns));
        if piece.end_ns <= last.end_ns || last.column + 1 == sums.len() {
            break;
        }
        *last = columns.place(last.column + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use fastrand::Rng;

    use super::*;
    use crate::piece::{Class, Values};

    struct Memory {
        bytes: Vec<u8>,
        reads: Cell<usize>,
    }

    impl Blocks for Memory {
        fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
            self.reads.set(self.reads.get() + 1);
            let part = usize::try_from(at)
                .ok()
                .and_then(|at| self.bytes.get(at..at.checked_add(bytes)?));
            // As files are read: no more than there is.
            let is_bounded = self.reads.get() < 100_000;
            Ok(part.filter(|_| is_bounded).ok_or(Damaged)?.to_vec())
        }
    }

    /// Pieces with and without holes between them.
    fn lane(random: &mut Rng, count: usize) -> Vec<Piece> {
        let mut end_ns = random.i64(-1000..1000);
        let piece = |_| {
            let begin_ns = end_ns + if random.u8(..4) == 0 { random.i64(0..1000) } else { 0 };
            let bits = random.u32(1..20);
            end_ns = begin_ns
                + if random.u8(..20) == 0 {
                    0
                } else {
                    random.i64(1..1 << bits)
                };
            let class = Class::ALL[random.usize(..Class::ALL.len())];
            // Numbers as large as there are.
            let value_bits = random.u32(1..=64);
            Piece {
                begin_ns,
                end_ns,
                class,
                what: if random.bool() { random.u32(..) } else { 0 },
                by: if random.bool() { random.u32(..500) } else { 0 },
                value: match class {
                    Class::Value => random.u64(..) >> (64 - value_bits),
                    _ => 0,
                },
            }
        };
        (0..count).map(piece).collect()
    }

    fn written(pieces: &[Piece]) -> (Option<Entry>, Memory) {
        let mut output = Output::new(Vec::new());
        let mut branch = Branch::default();
        for piece in pieces {
            branch.put(piece, &mut output).expect("memory");
        }
        let root = branch.finish(&mut output).expect("memory");
        let reads = Cell::default();
        let bytes = output.finish().expect("memory");
        (root, Memory { bytes, reads })
    }

    /// Of a column: how many begin, how long of each class, the longest, and the numbers.
    type Said = (u64, [u64; Class::ALL.len()], u64, Option<Values>);

    fn said(sum: &Summary) -> Said {
        (
            sum.count,
            sum.ns,
            sum.longest.map_or(0, |longest| longest.ns),
            sum.values,
        )
    }

    /// What is said of columns, by looking at every piece.
    fn expected(pieces: &[Piece], columns: &Columns) -> Vec<Said> {
        let one = |column| {
            let (begin_ns, end_ns) = (columns.begin_of(column), columns.begin_of(column + 1));
            let begun = pieces
                .iter()
                .filter(|piece| (begin_ns..end_ns).contains(&piece.begin_ns));
            let (mut ns, mut longest) = ([0; Class::ALL.len()], 0);
            for piece in pieces {
                let part = piece
                    .end_ns
                    .min(end_ns)
                    .saturating_sub(piece.begin_ns.max(begin_ns))
                    .max(0)
                    .cast_unsigned();
                ns[piece.class as usize] += part;
                longest = part.max(longest);
            }
            let numbers = pieces.iter().filter(|piece| piece.class == Class::Value);
            let parts = numbers.filter_map(|piece| {
                let ns = piece.end_ns.min(end_ns) - piece.begin_ns.max(begin_ns);
                let times = match piece.duration_ns() {
                    0 => i64::from((begin_ns..end_ns).contains(&piece.begin_ns)),
                    _ => ns.max(0),
                };
                let amounts = u64::from(piece.duration_ns() == 0);
                (times > 0).then_some((piece.value, times as u128, amounts))
            });
            let values = parts.fold(None, |values: Option<Values>, (value, times, amounts)| {
                let before = values.unwrap_or(Values {
                    amounts: 0,
                    least: value,
                    most: value,
                    total: 0,
                });
                Some(Values {
                    amounts: before.amounts + amounts,
                    least: before.least.min(value),
                    most: before.most.max(value),
                    total: before.total + u128::from(value) * times,
                })
            });
            (begun.count() as u64, ns, longest, values)
        };
        (0..columns.count).map(one).collect()
    }

    #[test]
    fn answers_are_those_of_every_piece_at_every_width() {
        let mut random = Rng::with_seed(1);
        for count in [0, 1, 2, 127, 128, 129, 128 * 64, 128 * 64 + 1, 20_000, 300_000] {
            let pieces = lane(&mut random, count);
            let (root, file) = written(&pieces);
            assert_eq!(root.is_some(), count > 0);
            let Some(root) = root else { continue };
            let (begin_ns, end_ns) = root.span_ns();
            assert_eq!(root.summary.count, count as u64);
            for _ in 0..if count > 100_000 { 5 } else { 30 } {
                let widest = (end_ns - begin_ns + 2) >> random.u32(..20);
                let width = random.i64(1..=widest.max(1));
                let from_ns = random.i64(begin_ns - 5..=end_ns);
                let columns = Columns {
                    begin_ns: from_ns,
                    end_ns: from_ns + width,
                    count: random.usize(1..50),
                };
                let mut sums = vec![Summary::default(); columns.count];
                root.sum(&file, &columns, &mut sums).expect("it is whole");
                let found: Vec<_> = sums.iter().map(said).collect();
                assert_eq!(found, expected(&pieces, &columns), "{columns:?} of {count}");

                let mut part = Vec::new();
                let add = &mut |piece| {
                    part.push(piece);
                    true
                };
                assert!(
                    root.pieces(&file, (from_ns, from_ns + width), add)
                        .expect("it is whole")
                );
                let own = pieces
                    .iter()
                    .filter(|piece| touches(piece.begin_ns, piece.end_ns, from_ns, from_ns + width));
                assert_eq!(part, own.copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_wide_answer_reads_a_small_part() {
        let mut random = Rng::with_seed(2);
        let pieces = lane(&mut random, 1_000_000);
        let (root, file) = written(&pieces);
        let root = root.expect("it has pieces");
        let (begin_ns, end_ns) = root.span_ns();
        let mut sums = vec![Summary::default(); 100];
        let columns = Columns {
            begin_ns,
            end_ns,
            count: 100,
        };
        root.sum(&file, &columns, &mut sums).expect("it is whole");
        assert_eq!(sums.iter().map(|sum| sum.count).sum::<u64>(), 1_000_000);
        // For each end of a column a leaf and the nodes above it.
        assert!(file.reads.get() <= 3 * 100 + 3, "{} reads", file.reads.get());
    }

    #[test]
    fn a_lane_that_grows_answers_like_one_that_is_finished() {
        let mut random = Rng::with_seed(4);
        let pieces = lane(&mut random, 128 * 64 * 2 + 128 * 5 + 17);
        let file = tempfile::tempfile().expect("a temporary file");
        let mut output = Output::new(file);
        let mut branch = Branch::default();
        for (index, piece) in pieces.iter().enumerate() {
            branch.put(piece, &mut output).expect("it can be written");
            if index % 3001 != 0 && index + 1 != pieces.len() {
                continue;
            }
            let so_far = &pieces[..=index];
            let all = branch.summary();
            assert_eq!(all.count, so_far.len() as u64);
            let (begin_ns, end_ns) = all.span_ns.expect("it has pieces");
            let columns = Columns {
                begin_ns: begin_ns + (end_ns - begin_ns) / 3,
                end_ns: end_ns + 1,
                count: 31,
            };
            let mut sums = vec![Summary::default(); columns.count];
            branch.sum(&output, &columns, &mut sums).expect("it is whole");
            let found: Vec<_> = sums.iter().map(said).collect();
            assert_eq!(found, expected(so_far, &columns));
            let mut part = Vec::new();
            let mut add = |piece| {
                part.push(piece);
                true
            };
            let range_ns = (columns.begin_ns, columns.end_ns);
            assert!(branch.pieces(&output, range_ns, &mut add).expect("it is whole"));
            let own = so_far
                .iter()
                .filter(|piece| touches(piece.begin_ns, piece.end_ns, range_ns.0, range_ns.1));
            assert_eq!(part, own.copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn damage_is_said() {
        let mut random = Rng::with_seed(3);
        let pieces = lane(&mut random, 20_000);
        let (root, mut file) = written(&pieces);
        let root = root.expect("it has pieces");
        let (begin_ns, end_ns) = root.span_ns();
        for _ in 0..300 {
            let place = random.usize(..file.bytes.len());
            let bits = random.u8(1..);
            file.bytes[place] ^= bits;
            let columns = Columns {
                begin_ns,
                end_ns,
                count: 7,
            };
            // Whatever it answers, it comes to an end.
            let _ = root.sum(&file, &columns, &mut vec![Summary::default(); 7]);
            let _ = root.pieces(&file, (begin_ns, end_ns), &mut |_| true);
            file.bytes[place] ^= bits;
        }
    }
}
