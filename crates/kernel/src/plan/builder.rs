// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts a plan together, and the description of what it writes.

use piste_ctf::{Field, FieldKind};

use super::{CopyName, Plan, Step};
use crate::convert::NAME_BYTES;
use crate::format::Location;
use crate::spec::Context;

/// Puts a plan together, field by field, and the fields' descriptions.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    steps: Vec<Step>,
    /// What is to be copied, as far as it lies together: first byte and the byte behind the last.
    run: Option<(u16, u16)>,
    needed_bytes: usize,
    fixed_bytes: usize,
    fields: Vec<Field>,
    copy_names: Box<[CopyName]>,
}

/// A part of a record that no record can have: it ends behind the largest length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFar;

impl Builder {
    /// Describes what the next step writes.
    pub(crate) fn field(&mut self, name: &str, kind: FieldKind) {
        let name = name.to_owned();
        self.fields.push(Field { name, kind });
    }

    /// Copies `bytes` at `from`.
    pub(crate) fn copy(&mut self, from: u32, bytes: u32) -> Result<(), TooFar> {
        let (from, end) = self.read(from, bytes)?;
        self.fixed_bytes += usize::from(end - from);
        match &mut self.run {
            Some((_, run_end)) if *run_end == from => *run_end = end,
            _ => {
                self.end_run();
                self.run = Some((from, end));
            }
        }
        Ok(())
    }

    /// Writes the CPU.
    pub(crate) fn cpu(&mut self) {
        self.step(Step::Cpu, 2);
    }

    /// Writes an int32 less 100.
    pub(crate) fn priority(&mut self, from: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        self.step(Step::Priority { from }, 4);
        Ok(())
    }

    /// Writes a thread's state, an int64.
    pub(crate) fn task_state(&mut self, from: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 8)?;
        self.step(Step::TaskState { from }, 8);
        Ok(())
    }

    /// Writes what a block request is, a uint32.
    pub(crate) fn request(&mut self, from: u32, bytes: u32) -> Result<(), TooFar> {
        let (from, end) = self.read(from, bytes)?;
        let bytes = end - from;
        self.step(Step::Request { from, bytes }, 4);
        Ok(())
    }

    /// Writes the process of a thread, an int32.
    pub(crate) fn process(&mut self, from: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        self.step(Step::Process { from }, 4);
        Ok(())
    }

    /// Writes a derived context of the thread whose ID is at `from`.
    pub(crate) fn fact(&mut self, from: u32, context: Context) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        // Its type, and a number or the longest name.
        self.step(Step::Fact { from, context }, 1 + NAME_BYTES);
        Ok(())
    }

    /// Writes the text that the word at `from` tells of.
    pub(crate) fn text(&mut self, from: u32, location: Location) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        self.step(Step::Text { from, location }, 1);
        Ok(())
    }

    /// Writes the elements that the word at `from` tells of.
    pub(crate) fn elements(&mut self, from: u32, location: Location, element_bytes: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        let element_bytes = element_bytes as u8;
        let step = Step::Elements {
            from,
            location,
            element_bytes,
        };
        self.step(step, 4);
        Ok(())
    }

    /// Writes the text from `from` on.
    pub(crate) fn tail_text(&mut self, from: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 0)?;
        self.step(Step::TailText { from }, 1);
        Ok(())
    }

    /// Writes the elements from `from` on.
    pub(crate) fn tail_elements(&mut self, from: u32, element_bytes: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 0)?;
        let element_bytes = element_bytes as u8;
        self.step(Step::TailElements { from, element_bytes }, 4);
        Ok(())
    }

    /// Writes the texts that the word at `from` tells of.
    pub(crate) fn texts(&mut self, from: u32) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        self.step(Step::Texts { from }, 4);
        Ok(())
    }

    /// Writes a part of what the word at `from` tells of.
    pub(crate) fn part(&mut self, from: u32, offset: u8, bytes: u8) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 4)?;
        self.step(Step::Part { from, offset, bytes }, bytes.into());
        Ok(())
    }

    /// Writes the socket address that the word at `from` tells of.
    pub(crate) fn address(&mut self, from: u32) -> Result<(), TooFar> {
        /// Family, port, two counts, and a byte more for a path.
        const LEAST_BYTES: usize = 4 + 2 + 4 + 4 + 2;
        let (from, _) = self.read(from, 4)?;
        self.step(Step::Address { from }, LEAST_BYTES);
        Ok(())
    }

    /// Writes which of the copies of what a call's arguments point to are not whole; `from` says what became of each.
    pub(crate) fn incomplete(&mut self, from: u32, names: Box<[CopyName]>) -> Result<(), TooFar> {
        let (from, _) = self.read(from, 2)?;
        let bytes_max: usize = names.iter().map(CopyName::bytes_max).sum();
        self.step(Step::Incomplete { from }, 1 + bytes_max);
        self.copy_names = names;
        Ok(())
    }

    /// The plan, and what it writes behind the contexts.
    pub(crate) fn finish(mut self) -> (Plan, Vec<Field>) {
        self.end_run();
        let plan = Plan {
            steps: self.steps.into(),
            needed_bytes: self.needed_bytes,
            fixed_bytes: self.fixed_bytes,
            copy_names: self.copy_names,
        };
        (plan, self.fields)
    }

    /// Where `bytes` at `from` begin and end, and that each record has them.
    fn read(&mut self, from: u32, bytes: u32) -> Result<(u16, u16), TooFar> {
        let end = from
            .checked_add(bytes)
            .and_then(|end| u16::try_from(end).ok())
            .ok_or(TooFar)?;
        self.needed_bytes = self.needed_bytes.max(end.into());
        Ok((from as u16, end))
    }

    fn step(&mut self, step: Step, bytes: usize) {
        self.end_run();
        self.steps.push(step);
        self.fixed_bytes += bytes;
    }

    fn end_run(&mut self) {
        let Some((from, end)) = self.run.take() else { return };
        let bytes = end - from;
        self.steps.extend(match bytes {
            0 => None,
            1 => Some(Step::Copy1 { from }),
            2..=3 => Some(Step::Copy2 { from, bytes }),
            4..=7 => Some(Step::Copy4 { from, bytes }),
            8..=15 => Some(Step::Copy8 { from, bytes }),
            16..=32 => Some(Step::Copy16 { from, bytes }),
            33.. => Some(Step::Copy { from, bytes }),
        });
    }
}
