// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format of an event: which bytes of its record are which field, as the running kernel says in `events/SYSTEM/NAME/format`.
//!
//! Nothing is known beforehand: the type of a field follows from its declaration, its size and its sign, and how people want to see it
//! from the print format (`print.rs`). What no rule fits is kept as bytes and said ([`EventFormat::unknown_fields`]).
//!
//! ```text
//! name: sched_wakeup
//! ID: 370
//! format:
//!     field:unsigned short common_type;  offset:0;  size:2;  signed:0;
//!     ..
//!     field:char comm[16];  offset:8;  size:16;  signed:0;
//!
//! print fmt: "comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu
//! ```
//!
//! Next: `format/declaration.rs`.

mod declaration;

use piste_ctf::{Base, Element, Label};

use crate::print;

/// The format of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Number of the event on this kernel until it is next started: the first uint16 of each record.
    pub id: u16,
    /// The group of events that it belongs to: `sched`.
    pub system: String,
    /// Its name: `sched_switch`.
    pub name: String,
    /// What each record begins with: `common_type`, `common_flags`, `common_preempt_count`, `common_pid`.
    pub common: Vec<FieldFormat>,
    /// Its own fields, as the kernel lists them: in the order of their bytes.
    pub fields: Vec<FieldFormat>,
    /// How the kernel prints it: a format of printf and its arguments, in C.
    pub print: String,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFormat {
    /// Its name.
    pub name: String,
    /// Its type as the kernel writes it: `char[16]`, `__data_loc char[]`.
    pub type_text: String,
    /// Where its bytes start in the record.
    pub offset: u32,
    /// Bytes that it takes there; of a [`FieldKind::Dynamic`] those of the word that says where they are.
    pub bytes: u32,
    /// What the bytes are.
    pub kind: FieldKind,
    /// Names of its values.
    pub names: Option<ValueNames>,
}

/// What the bytes of a field are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One integer. Booleans and characters are integers of one byte, pointers are shown as hex.
    Integer {
        /// Its type.
        element: Element,
        /// How it is shown.
        base: Base,
    },
    /// A fixed number of integers.
    Array {
        /// Type of each.
        element: Element,
        /// How they are shown.
        base: Base,
        /// How many.
        count: u32,
    },
    /// As many bytes as the field has: a text up to the first zero byte.
    Text,
    /// A word that says where in the record the content is.
    Dynamic {
        /// How to read the word.
        location: Location,
        /// What is there.
        content: Content,
    },
    /// Content from the field's offset to the end of the record.
    Tail {
        /// What is there.
        content: Content,
    },
    /// As many bytes as the field has, of a type that is not known.
    Bytes,
}

/// How a word says where content is: its low 16 bits are an offset, its high 16 bits the length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// `__data_loc`: the offset counts from the start of the record.
    FromRecord,
    /// `__rel_loc`: the offset counts from the end of the word.
    FromWord,
}

/// Content whose length each record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text up to the first zero byte, or to the end when there is none.
    Text,
    /// Integers.
    Elements {
        /// Type of each.
        element: Element,
        /// How they are shown.
        base: Base,
    },
    /// A mask, in words of 64 bits, lowest bit first: CPUs.
    Mask,
    /// Bytes of a type that is not known.
    Bytes,
}

/// Names of a field's values, as the kernel prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueNames {
    /// The names are of bits that may be set together.
    pub is_flags: bool,
    /// Value and name of each; never empty.
    pub labels: Vec<Label>,
}

/// Why a text is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the format: {reason}")]
pub struct NoFormat {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl EventFormat {
    /// Reads the text of a `format` file of an event of `system`.
    ///
    /// # Errors
    /// When it has no name or no id, or a line of a field is not in the form that all kernels write.
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, NoFormat> {
        let mut format = EventFormat {
            id: 0,
            system: system.to_owned(),
            name: String::new(),
            common: Vec::new(),
            fields: Vec::new(),
            print: String::new(),
        };
        let mut id = None;
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let no_format = |reason| NoFormat {
                line: index + 1,
                reason,
            };
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                let number = number.trim().parse();
                id = Some(number.map_err(|_| no_format(format!("{line:?} is not the number of an event")))?);
            } else if let Some(field) = line.strip_prefix("field:") {
                let field = declaration::Line::parse(field);
                lines.push(field.ok_or_else(|| no_format(format!("{line:?} does not describe a field")))?);
            } else if line.starts_with("print fmt:") {
                let rest: Vec<_> = text.lines().skip(index).collect();
                format.print = rest.join("\n").trim_start()["print fmt:".len()..].trim().to_owned();
                break;
            }
        }
        let missing = |what: &str| NoFormat {
            line: 1,
            reason: format!("it does not contain the {what} of the event"),
        };
        format.id = id.ok_or_else(|| missing("number"))?;
        if format.name.is_empty() {
            return Err(missing("name"));
        }
        let shown = print::shown(&format.print);
        let nothing = print::Shown::default();
        for line in lines {
            let shown = shown.get(line.name).unwrap_or(&nothing);
            let is_common = line.name.starts_with("common_");
            let fields = if is_common {
                &mut format.common
            } else {
                &mut format.fields
            };
            fields.push(line.field(shown));
        }
        drop(shown);
        Ok(format)
    }

    /// The field of this name, one of all events or its own.
    pub fn field(&self, name: &str) -> Option<&FieldFormat> {
        self.fields.iter().chain(&self.common).find(|field| field.name == name)
    }

    /// Fields of a type that is not known; they are kept as bytes.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &FieldFormat> {
        self.fields.iter().filter(|field| field.kind.is_unknown())
    }
}

impl FieldKind {
    /// Whether it is bytes of a type that is not known.
    pub fn is_unknown(&self) -> bool {
        let content = match self {
            FieldKind::Bytes => return true,
            FieldKind::Dynamic { content, .. } | FieldKind::Tail { content } => content,
            _ => return false,
        };
        *content == Content::Bytes
    }
}

#[cfg(test)]
mod tests;
