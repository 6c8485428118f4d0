// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the options of a file say: on what machine it was recorded, how its clock counts, and where its buffers are.

use std::collections::HashMap;
use std::io::Read;

use piste_kernel::cpu_stats::CpuStats;

use crate::bytes::{Bytes, Unread};

/// What the options of a file say.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// `Linux HOST RELEASE MACHINE`
    pub(crate) uname: Option<String>,
    /// Of trace-cmd: `3.1.6`.
    pub(crate) version: Option<String>,
    /// The clock, unless a buffer has one of its own.
    pub(crate) clock: Option<String>,
    /// From ticks to nanoseconds.
    pub(crate) tsc: Option<Tsc>,
    /// From the trace's clock to nanoseconds since 1970, as `--date` found it.
    pub(crate) date_ns: Option<i64>,
    /// What a person wants to have added to all times.
    pub(crate) offset_ns: i64,
    /// What the rings of CPUs counted, by buffer and CPU.
    pub(crate) stats: HashMap<(String, u32), CpuStats>,
    /// The buffer of which the next ones are.
    pub(super) stats_of: String,
    /// Of the buffers of version 6, which do not say it themselves.
    pub(crate) cpu_count: Option<u32>,
    pub(crate) buffers: Vec<Buffer>,
    /// A buffer was recorded as text.
    pub(crate) has_text: bool,
    /// Times of a guest were to be shifted to those of its host.
    pub(crate) is_shifted: bool,
    /// In version 7, where sections are, by the number of the option.
    pub(crate) places: Vec<(u16, u64)>,
}

/// From ticks of a time stamp counter to nanoseconds: `ticks * multiplier >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tsc {
    pub(crate) multiplier: u32,
    pub(crate) shift: u32,
}

/// The rings of the top instance of tracefs, or of another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// Empty for the top instance.
    pub(crate) name: String,
    pub(crate) clock: Option<String>,
    /// Where its section is, or in version 6 what tells where its pages are.
    pub(crate) offset: u64,
    /// Absent in version 6.
    pub(crate) page_bytes: Option<u32>,
    pub(crate) cpus: Vec<CpuPart>,
    pub(crate) is_compressed: bool,
}

/// Where the pages of a CPU are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuPart {
    pub(crate) cpu: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Linux supports no more.
pub(crate) const CPUS_MAX: u32 = 8192;
/// A file with more instances is none.
const BUFFERS_MAX: usize = 256;
const OPTION_BYTES_MAX: u64 = 16 << 20;
/// A file with more options is none.
const OPTIONS_MAX: usize = 1 << 17;

const DONE: u16 = 0;
const DATE: u16 = 1;
const CPUSTAT: u16 = 2;
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const CPUCOUNT: u16 = 8;
const VERSION: u16 = 9;
const TIME_SHIFT: u16 = 12;
const TSC2NSEC: u16 = 14;
const BUFFER_TEXT: u16 = 22;

impl Options {
    /// Reads options to their end. Returns where more are, in version 7; 0 where none are.
    pub(crate) fn read(&mut self, from: &mut Bytes<impl Read>, has_sections: bool) -> Result<u64, Unread> {
        for _ in 0..OPTIONS_MAX {
            let id = from.u16()?;
            if id == DONE && !has_sections {
                return Ok(0);
            }
            let count = from.u32()?;
            let data = from.bytes(count.into(), OPTION_BYTES_MAX)?;
            let mut data = Bytes::new(&data[..], "an option");
            if id == DONE {
                return data.u64();
            }
            self.take(id, &mut data, has_sections)?;
        }
        Err(format!("it has more than {OPTIONS_MAX} options").into())
    }

    fn take(&mut self, id: u16, data: &mut Bytes<&[u8]>, has_sections: bool) -> Result<(), Unread> {
        match id {
            DATE => self.date_ns = number(&rest(data)).and_then(|us| us.checked_mul(1000)),
            OFFSET => self.offset_ns = self.offset_ns.saturating_add(number(&rest(data)).unwrap_or(0)),
            CPUSTAT => {
                let text = rest(data);
                let told = |key| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
                if let Some(buffer) = told("Buffer:") {
                    self.stats_of = buffer.to_owned();
                }
                if let Some(cpu) = told("CPU:").and_then(|cpu| cpu.parse().ok()) {
                    let (buffer, stats) = (self.stats_of.clone(), CpuStats::parse(&text));
                    self.stats.insert((buffer, cpu), stats);
                }
            }
            BUFFER if self.buffers.len() == BUFFERS_MAX => {
                return Err(format!("it claims to have more than {BUFFERS_MAX} buffers").into());
            }
            BUFFER => self.buffers.push(buffer(data, has_sections)?),
            TRACECLOCK => self.clock = Some(chosen(&rest(data))),
            UNAME => self.uname = Some(rest(data)),
            CPUCOUNT => self.cpu_count = Some(data.u32()?),
            VERSION => self.version = Some(rest(data)),
            TIME_SHIFT => self.is_shifted = true,
            TSC2NSEC => {
                let (multiplier, shift) = (data.u32()?, data.u32()?);
                self.tsc = (multiplier > 0 && shift < u32::BITS).then_some(Tsc { multiplier, shift });
            }
            BUFFER_TEXT => self.has_text = true,
            16..=21 if has_sections => self.places.push((id, data.u64()?)),
            _ => {}
        }
        Ok(())
    }
}

fn buffer(data: &mut Bytes<&[u8]>, has_sections: bool) -> Result<Buffer, Unread> {
    let mut buffer = Buffer {
        offset: data.u64()?,
        name: data.text()?,
        ..Buffer::default()
    };
    if has_sections {
        buffer.clock = Some(chosen(&data.text()?));
        buffer.page_bytes = Some(data.u32()?);
        let count = cpu_count(data.u32()?)?;
        for _ in 0..count {
            buffer.cpus.push(CpuPart {
                cpu: cpu_count(data.u32()?)?,
                offset: data.u64()?,
                bytes: data.u64()?,
            });
        }
    }
    Ok(buffer)
}

/// Also a number of a CPU.
pub(crate) fn cpu_count(count: u32) -> Result<u32, Unread> {
    match count {
        ..=CPUS_MAX => Ok(count),
        _ => Err(format!("it claims to be of a machine with {count} CPUs").into()),
    }
}

/// All of an option, as text.
fn rest(data: &mut Bytes<&[u8]>) -> String {
    let text = data.rest();
    String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// The clock that is in brackets: `[local] global counter`, or the only one.
fn chosen(text: &str) -> String {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(chosen, _)| chosen).trim().to_owned()
}

/// `0x5f3759df`, `-17`
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?.cast_signed(),
        None => digits.parse().ok()?,
    };
    number.checked_mul(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_the_chosen_one() {
        for (text, clock) in [
            ("[local] global mono\n", "local"),
            ("local [mono]", "mono"),
            ("x86-tsc\n", "x86-tsc"),
            ("", ""),
        ] {
            assert_eq!(chosen(text), clock);
        }
    }

    #[test]
    fn numbers_are_decimal_or_hex() {
        for (text, expected) in [
            ("0x10", Some(16)),
            ("-12 ", Some(-12)),
            ("-0x2", Some(-2)),
            ("", None),
            ("0xg", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
