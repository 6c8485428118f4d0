// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in a file, all but the pages: read from its begin in version 6, from its sections in version 7.

use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;

use piste_kernel::catalog::Catalog;
use piste_kernel::page::PageLayout;
use piste_syscalls::Architecture;

use super::MAGIC;
use super::options::{Buffer, CpuPart, Options, cpu_count};
use super::sections::{FilePart, Section};
use super::texts::{CMDLINES, EVENT_FORMATS, FTRACE_EVENTS, HEADER_INFO, KALLSYMS, PRINTK, Texts};
use super::unpack::Compression;
use crate::bytes::{Bytes, Unread};
use crate::notes::Notes;

/// What is in a file, all but the pages.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) version: &'static str,
    pub(crate) compression: Compression,
    /// Where the words of a page's header are.
    pub(crate) layout: PageLayout,
    pub(crate) catalog: Arc<Catalog>,
    /// Names of threads, as the kernel last knew them.
    pub(crate) names: Vec<(i32, String)>,
    /// Lines like those of /proc/kallsyms; empty where the file has none.
    pub(crate) kernel_symbols: String,
    pub(crate) options: Options,
    /// The top instance's is the first, and has no name. All have the size of their pages.
    pub(crate) buffers: Vec<Buffer>,
}

const BIG_ENDIAN: u8 = 1;
/// Of a sub-buffer; the kernel has 64 KiB at most, or the size of a page where that is larger.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 256..=1 << 20;

/// A chain of more sections, or of longer ones, goes in a circle.
const OPTION_SECTIONS_MAX: usize = 256;
const OPTION_BYTES_MAX: usize = 64 << 20;

impl Contents {
    /// Reads what is in a file.
    ///
    /// # Errors
    /// What all of it depends on is damaged, or of a form that is not supported.
    pub(crate) fn read(file: &File, notes: &mut Notes) -> Result<Contents, Unread> {
        let mut from = Bytes::new(BufReader::new(FilePart { file, offset: 0 }), "its header");
        from.skip(MAGIC.len() as u64)?;
        let version = match &*from.text()? {
            "6" => "6",
            "7" => "7",
            other => {
                return Err(format!("version {other} of the format trace.dat is not supported; 6 and 7 are").into());
            }
        };
        let [byte_order, _long_bytes] = from.array()?;
        if byte_order == BIG_ENDIAN {
            return Err("it was recorded on a big-endian machine, which is not supported"
                .to_owned()
                .into());
        }
        let page_bytes = page_bytes(from.u32()?)?;
        let mut texts = Texts::default();
        let mut options = Options::default();
        let mut compression = Compression::None;
        let buffers = match version {
            "6" => {
                texts.read_all(&mut from)?;
                old_buffers(file, &mut from, page_bytes, &mut options)?
            }
            _ => {
                compression = named_compression(&from.text()?)?;
                from.text()?;
                let sections = Sections { file, compression };
                sections.options(from.u64()?, &mut options)?;
                sections.texts(&options, &mut texts, notes)?;
                sections.buffers(&mut options)?
            }
        };
        if buffers.is_empty() && options.has_text {
            return Err(
                "it contains events only as text (the latency format), which is not supported"
                    .to_owned()
                    .into(),
            );
        }
        let layout = texts.layout()?;
        Ok(Contents {
            version,
            compression,
            layout,
            names: texts.names(),
            kernel_symbols: texts.kernel_symbols,
            catalog: Arc::new(Catalog::of_texts(texts.formats, texts.constants).on(architecture(&options))),
            options,
            buffers,
        })
    }
}

fn page_bytes(said: u32) -> Result<u32, Unread> {
    match PAGE_BYTES.contains(&said) {
        true => Ok(said),
        false => Err(format!("it claims to have pages of {said} bytes").into()),
    }
}

fn named_compression(name: &str) -> Result<Compression, Unread> {
    let unknown = || format!("it is compressed with {name:?}, which is not supported; zlib and zstd are").into();
    Compression::of(name).ok_or_else(unknown)
}

/// System calls have names where their numbers are known.
fn architecture(options: &Options) -> Architecture {
    let machine = options
        .uname
        .as_deref()
        .and_then(|uname| uname.split_whitespace().last());
    Architecture::named(match machine {
        Some("x86_64") => "x86_64",
        Some("aarch64") => "aarch64",
        Some("riscv64") => "riscv64",
        Some(_) => "this kind of processor",
        None => "a processor that the file does not name",
    })
}

/// What follows on the texts in version 6.
fn old_buffers(
    file: &File,
    from: &mut Bytes<impl Read>,
    page_bytes: u32,
    options: &mut Options,
) -> Result<Vec<Buffer>, Unread> {
    from.what = "its number of CPUs";
    let count = cpu_count(from.u32()?)?;
    let top = old_buffer(from, count, options)?;
    let mut buffers = Vec::from_iter(top);
    for mut buffer in std::mem::take(&mut options.buffers) {
        let mut there = Bytes::new(
            FilePart {
                file,
                offset: buffer.offset,
            },
            "its description of an instance",
        );
        let mut own = Options::default();
        let count = options.cpu_count.unwrap_or(count);
        if let Some(found) = old_buffer(&mut there, count, &mut own)? {
            buffer.cpus = found.cpus;
            buffers.push(buffer);
        }
    }
    for buffer in &mut buffers {
        buffer.page_bytes = Some(page_bytes);
    }
    Ok(buffers)
}

/// Where the pages of a buffer are. `None` where it is text.
fn old_buffer(from: &mut Bytes<impl Read>, mut count: u32, options: &mut Options) -> Result<Option<Buffer>, Unread> {
    from.what = "its description of its events";
    let mut kind: [u8; 10] = from.array()?;
    if &kind == b"options  \0" {
        options.read(from, false)?;
        count = cpu_count(options.cpu_count.unwrap_or(count))?;
        kind = from.array()?;
    }
    match &kind {
        b"flyrecord\0" => {}
        b"latency  \0" => {
            options.has_text = true;
            return Ok(None);
        }
        _ => return Err("it does not contain the positions of its events".to_owned().into()),
    }
    let mut cpus = Vec::new();
    for cpu in 0..count {
        cpus.push(CpuPart {
            cpu,
            offset: from.u64()?,
            bytes: from.u64()?,
        });
    }
    Ok(Some(Buffer {
        cpus,
        ..Buffer::default()
    }))
}

/// The sections of a file of version 7.
struct Sections<'f> {
    file: &'f File,
    compression: Compression,
}

impl Sections<'_> {
    /// All options, from the first section of them on.
    fn options(&self, mut offset: u64, options: &mut Options) -> Result<(), Unread> {
        const WHAT: &str = "its options";
        let mut left_bytes = OPTION_BYTES_MAX;
        for _ in 0..OPTION_SECTIONS_MAX {
            let section = Section::at(self.file, offset, WHAT)?;
            if section.id != 0 {
                return Err(format!("its options are not at byte {offset}").into());
            }
            let data = section.read(self.file, self.compression, WHAT)?;
            match left_bytes.checked_sub(data.len()) {
                Some(left) => left_bytes = left,
                None => break,
            }
            offset = options.read(&mut Bytes::new(&data[..], WHAT), true)?;
            if offset == 0 {
                return Ok(());
            }
        }
        Err("its options do not end".to_owned().into())
    }

    fn texts(&self, options: &Options, texts: &mut Texts, notes: &mut Notes) -> Result<(), Unread> {
        let wanted = [
            (HEADER_INFO, "its description of pages"),
            (FTRACE_EVENTS, "its formats of ftrace events"),
            (EVENT_FORMATS, "its formats of events"),
            (KALLSYMS, "its kallsyms"),
            (PRINTK, "its printk_formats"),
            (CMDLINES, "its names of threads"),
        ];
        for (id, what) in wanted {
            let place = options.places.iter().find(|(option, _)| *option == id);
            let read = match place {
                Some((_, offset)) => {
                    let data = self.text(id, *offset, what);
                    data.and_then(|data| texts.read_section(id, &mut Bytes::new(&data[..], what)))
                }
                // Without names, addresses are numbers.
                None if id == KALLSYMS => Ok(()),
                None => Err(format!("{what} is missing").into()),
            };
            match (read, id) {
                (Err(Unread::Damaged(why)), id) if id != HEADER_INFO => notes.say(why),
                (read, _) => read?,
            }
        }
        Ok(())
    }

    fn text(&self, id: u16, offset: u64, what: &'static str) -> Result<Vec<u8>, Unread> {
        let section = Section::at(self.file, offset, what)?;
        match section.id == id {
            true => section.read(self.file, self.compression, what),
            false => Err(format!("{what} is not at byte {offset}, where it is said to be").into()),
        }
    }

    fn buffers(&self, options: &mut Options) -> Result<Vec<Buffer>, Unread> {
        const WHAT: &str = "its events";
        const FLYRECORD: u16 = 3;
        let mut buffers = std::mem::take(&mut options.buffers);
        for buffer in &mut buffers {
            let section = Section::at(self.file, buffer.offset, WHAT)?;
            if section.id != FLYRECORD {
                return Err(format!(
                    "its events are not at byte {}, where they are said to be",
                    buffer.offset
                )
                .into());
            }
            buffer.is_compressed = section.is_compressed;
            page_bytes(buffer.page_bytes.unwrap_or(0))?;
        }
        buffers.sort_by_key(|buffer| !buffer.name.is_empty());
        Ok(buffers)
    }
}
