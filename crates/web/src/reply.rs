// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lanes show in a range, as bytes: their number is bounded by the columns that were asked for, not by what happened.
//!
//! Numbers are little-endian. Times are in nanoseconds from the begin of the range.
//!
//! ```text
//!   reply    lanes: u32, lane of each, labels: u32, label of each
//!   lane     id: u32, kind: u8 (0 columns, 1 pieces), count: u32, then as many
//!     column   classes: u16 (a bit for each), share of each: u8 (255: all of the column), and if there is any, of the longest piece its
//!              class: u8, and what it is: u32; and if there are numbers, how many amounts: u32, the least and the most: f64 each, and the sum
//!              of amounts or the mean of levels: f64
//!     piece    begin: f64, duration: f64, class: u8, what: u32, by: u32, and if it has a number, that: f64
//!   label    number: u32, lane + 1: u32 (0: it is no thread), bytes: u16, name in UTF-8
//! ```

use std::collections::BTreeSet;

use piste_timeline::{Class, Failure, LaneId, Piece, Summary, Values};

use crate::recordings::{Name, View};

/// Columns of all lanes together: more than a screen has.
pub(crate) const CELLS_MAX: usize = 1 << 19;
/// A lane with fewer pieces than one in so many columns is told piece by piece.
const COLUMNS_OF_PIECE: usize = 2;
const NAME_BYTES_MAX: usize = 200;

/// What lanes show between two times, in so many columns.
pub(crate) fn lanes(view: &View, lanes: &[LaneId], range_ns: (i64, i64), columns: usize) -> Result<Vec<u8>, Failure> {
    let mut reply = Reply::default();
    put_u32(&mut reply.bytes, lanes.len() as u32);
    for lane in lanes {
        match view.pieces(*lane, range_ns, columns / COLUMNS_OF_PIECE)? {
            Some(pieces) => reply.pieces(*lane, range_ns.0, &pieces),
            None => reply.columns(*lane, range_ns, &view.columns(*lane, range_ns, columns)?),
        }
    }
    reply.finish(view)
}

#[derive(Default)]
struct Reply {
    bytes: Vec<u8>,
    /// That were named.
    labels: BTreeSet<u32>,
}

impl Reply {
    fn head(&mut self, LaneId(lane): LaneId, kind: u8, count: usize) {
        put_u32(&mut self.bytes, lane);
        self.bytes.push(kind);
        put_u32(&mut self.bytes, count as u32);
    }

    fn label(&mut self, number: u32) {
        put_u32(&mut self.bytes, number);
        self.labels.insert(number);
    }

    fn pieces(&mut self, lane: LaneId, begin_ns: i64, pieces: &[Piece]) {
        self.head(lane, 1, pieces.len());
        for piece in pieces {
            let from_begin_ns = (i128::from(piece.begin_ns) - i128::from(begin_ns)) as f64;
            self.bytes.extend(from_begin_ns.to_le_bytes());
            self.bytes.extend((piece.duration_ns() as f64).to_le_bytes());
            self.bytes.push(piece.class as u8);
            self.label(piece.what);
            self.label(piece.by);
            if piece.class == Class::Value {
                self.bytes.extend((piece.value as f64).to_le_bytes());
            }
        }
    }

    fn columns(&mut self, lane: LaneId, (begin_ns, end_ns): (i64, i64), columns: &[Summary]) {
        self.head(lane, 0, columns.len());
        // Times since 1970 have no exact double; their differences have.
        let width_ns = (i128::from(end_ns) - i128::from(begin_ns)) as f64 / columns.len() as f64;
        for column in columns {
            let longest = column.longest.map(|longest| (longest.class, longest.what));
            // Events take no time.
            let is_known = |class: &Class| {
                column.of(*class) > 0
                    || longest.is_some_and(|(known, _)| known == *class)
                    || *class == Class::Value && column.values.is_some()
            };
            let known = Class::ALL.into_iter().filter(is_known);
            let mask = known.clone().fold(0_u16, |mask, class| mask | 1 << class as u16);
            self.bytes.extend(mask.to_le_bytes());
            // What is there at all is seen.
            let share = |class| (column.of(class) as f64 / width_ns * 255.0).round().clamp(1.0, 255.0) as u8;
            self.bytes.extend(known.map(share));
            if let Some((class, what)) = longest {
                self.bytes.push(class as u8);
                self.label(what);
            }
            if let Some(values) = column.values {
                put_u32(&mut self.bytes, u32::try_from(values.amounts).unwrap_or(u32::MAX));
                for number in [values.least as f64, values.most as f64, shown(column, values)] {
                    self.bytes.extend(number.to_le_bytes());
                }
            }
        }
    }

    fn finish(mut self, view: &View) -> Result<Vec<u8>, Failure> {
        let names = view.names(self.labels.iter().copied())?;
        put_u32(&mut self.bytes, names.len() as u32);
        for (number, Name { lane, text }) in names {
            let end = (0..=text.len().min(NAME_BYTES_MAX))
                .rev()
                .find(|end| text.is_char_boundary(*end));
            let text = &text[..end.unwrap_or_default()];
            put_u32(&mut self.bytes, number);
            put_u32(&mut self.bytes, lane.map_or(0, |lane| lane.wrapping_add(1)));
            self.bytes.extend((text.len() as u16).to_le_bytes());
            self.bytes.extend(text.as_bytes());
        }
        Ok(self.bytes)
    }
}

/// The sum of amounts, or the mean of levels over the time for which they are known.
fn shown(column: &Summary, values: Values) -> f64 {
    match column.of(Class::Value) {
        0 => values.total as f64,
        ns => values.total as f64 / ns as f64,
    }
}

fn put_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend(value.to_le_bytes());
}
