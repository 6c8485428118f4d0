// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of trace-cmd (`trace.dat`), versions 6 and 7: raw pages of the kernel's rings, with everything that tells what they are.
//!
//! ```text
//!   17 08 44 "tracing" | "6\0" or "7\0" | byte order u8 | bytes of a long u8 | page bytes u32
//!
//!   version 6: one behind the other                        version 7: "zstd\0" "1.5.4\0" | offset of the first section of options u64
//!     header_page, header_event                              a section: id u16 | flags u16 | name u32 | bytes u64 | data, maybe compressed
//!     formats of ftrace, formats of events                   an option: id u16 | bytes u32 | data
//!     kallsyms, printk_formats, saved_cmdlines               options tell where the other sections are, and where the next
//!     CPU count, "options  \0", options                      options are; the option BUFFER tells where the pages are
//!     "flyrecord\0", offset and bytes of each CPU
//! ```
//!
//! - `options.rs`: what options say, in both versions
//! - `contents.rs`: what is in a file, all but the pages; `texts.rs`: what it tells of the kernel
//! - `sections.rs`: sections of version 7; `unpack.rs`: compressed ones
//! - `pages.rs`: the pages of a CPU
//! - `survey.rs`: a first look at all pages: when they begin and end, and which events they have
//! - `convert.rs`: a file becomes traces; `channel.rs`: pages of a buffer become streams; `names.rs`: names of threads
//! - `clock.rs`: what times mean

mod channel;
mod clock;
mod contents;
mod convert;
mod names;
mod options;
mod pages;
mod sections;
mod survey;
mod texts;
mod unpack;

use std::fs::File;
use std::path::Path;

use crate::bytes::Unread;
use crate::notes::Notes;
use crate::{ImportError, Imported, Watch};

use contents::Contents;
use convert::Work;

/// What every such file begins with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The traces of a file: one for each of its clocks, which is one for nearly all files.
pub(crate) fn import(path: &Path, folder: &Path, watch: &Watch) -> Result<Imported, ImportError> {
    let not_understood = |unread| match unread {
        Unread::System(error) => ImportError::Unreadable {
            path: path.to_owned(),
            error,
        },
        Unread::Damaged(what) => ImportError::NotUnderstood {
            path: path.to_owned(),
            what,
        },
    };
    let file = File::open(path).map_err(|error| not_understood(Unread::System(error)))?;
    let mut notes = Notes::default();
    let contents = Contents::read(&file, &mut notes).map_err(not_understood)?;
    let mut work = Work {
        path,
        file: &file,
        contents: &contents,
        watch,
        notes,
        events: 0,
    };
    work.convert(folder)?;
    Ok(Imported {
        events: work.events,
        notes: work.notes.into_sentences(),
    })
}
