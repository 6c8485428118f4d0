// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file tells of the kernel, in the kernel's own texts from tracefs: one behind the other in version 6, a section each in version 7.

use std::io::Read;

use piste_kernel::page::PageLayout;

use super::sections::SECTION_BYTES_MAX;
use crate::bytes::{Bytes, Unread};

/// What tells of the kernel, as text.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    header_page: String,
    header_event: String,
    /// Group and text of each.
    pub(crate) formats: Vec<(String, String)>,
    /// As in /proc/kallsyms.
    pub(crate) kernel_symbols: String,
    pub(crate) constants: String,
    command_lines: String,
}

// Numbers of their sections in version 7, and of the options that tell where these are.
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const FTRACE_EVENTS: u16 = 17;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const KALLSYMS: u16 = 19;
pub(crate) const PRINTK: u16 = 20;
pub(crate) const CMDLINES: u16 = 21;

/// Texts of the kernel about one event have some kilobytes.
const FORMAT_BYTES_MAX: u64 = 1 << 20;
/// Events have numbers of 16 bits.
const FORMATS_MAX: usize = 1 << u16::BITS;
/// The kernel keeps the names of some hundred threads, and of some hundred thousand at most.
const NAMES_BYTES_MAX: u64 = 16 << 20;

impl Texts {
    /// As they follow on each other in version 6.
    pub(crate) fn read_all(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        self.read_headers(from)?;
        self.read_ftrace(from)?;
        self.read_events(from)?;
        self.read_kernel_symbols(from)?;
        self.read_constants(from)?;
        self.read_command_lines(from)
    }

    /// A section of version 7.
    pub(crate) fn read_section(&mut self, id: u16, from: &mut Bytes<&[u8]>) -> Result<(), Unread> {
        match id {
            HEADER_INFO => self.read_headers(from),
            FTRACE_EVENTS => self.read_ftrace(from),
            EVENT_FORMATS => self.read_events(from),
            KALLSYMS => self.read_kernel_symbols(from),
            PRINTK => self.read_constants(from),
            _ => self.read_command_lines(from),
        }
    }

    fn read_headers(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        from.what = "its description of pages";
        for (name, place) in [
            ("header_page", &mut self.header_page),
            ("header_event", &mut self.header_event),
        ] {
            if from.text()? != name {
                return Err(format!("its {name} is missing").into());
            }
            let count = from.u64()?;
            *place = from.long_text(count, FORMAT_BYTES_MAX)?;
        }
        Ok(())
    }

    fn read_ftrace(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        from.what = "its formats of ftrace events";
        self.read_formats("ftrace", from)
    }

    fn read_events(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        from.what = "its formats of events";
        for _ in 0..from.u32()? {
            let system = from.text()?;
            self.read_formats(&system, from)?;
        }
        Ok(())
    }

    fn read_formats(&mut self, system: &str, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        for _ in 0..from.u32()? {
            if self.formats.len() == FORMATS_MAX {
                return Err(format!("it claims to have more than {FORMATS_MAX} events").into());
            }
            let count = from.u64()?;
            let text = from.long_text(count, FORMAT_BYTES_MAX)?;
            self.formats.push((system.to_owned(), text));
        }
        Ok(())
    }

    fn read_kernel_symbols(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        from.what = "its kallsyms";
        let count = from.u32()?;
        self.kernel_symbols = from.long_text(count.into(), SECTION_BYTES_MAX)?;
        Ok(())
    }

    fn read_constants(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        from.what = "its printk_formats";
        let count = from.u32()?;
        self.constants = from.long_text(count.into(), SECTION_BYTES_MAX)?;
        Ok(())
    }

    fn read_command_lines(&mut self, from: &mut Bytes<impl Read>) -> Result<(), Unread> {
        from.what = "its names of threads";
        let count = from.u64()?;
        self.command_lines = from.long_text(count, NAMES_BYTES_MAX)?;
        Ok(())
    }

    pub(crate) fn layout(&self) -> Result<PageLayout, Unread> {
        let layout = PageLayout::of_texts(&self.header_page, &self.header_event);
        let layout = layout.ok_or("it describes a ring buffer format that Piste does not know".to_owned())?;
        match layout.is_64_bit() {
            true => Ok(layout),
            false => Err("it was recorded on a 32-bit kernel, which is not supported"
                .to_owned()
                .into()),
        }
    }

    /// `148 dd`, a thread a line.
    pub(crate) fn names(&self) -> Vec<(i32, String)> {
        let named = |line: &str| {
            let (tid, name) = line.trim_start().split_once(' ')?;
            let tid: i32 = tid.parse().ok()?;
            (tid > 0).then(|| (tid, name.to_owned()))
        };
        self.command_lines.lines().filter_map(named).collect()
    }
}
