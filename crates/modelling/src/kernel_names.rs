// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions and variables: those that a recording has, else those of the kernel that runs, if it is the one that was recorded.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::read::MultiGzDecoder;
use piste_mappings::KERNEL_SYMBOLS;
use piste_reason::reason;
use piste_symbols::binary::open;
use piste_symbols::kernel::KernelSymbols;
use piste_trace::Trace;

use crate::mappings;

/// No more of a file is unpacked. What a kernel with all its modules says is a sixth of it.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// The names in some traces. Lists are read when a name is asked for.
#[derive(Debug)]
pub struct KernelNames {
    lists: Vec<List>,
    /// By trace: its list.
    list_of: Vec<usize>,
    /// What is known of an address in all of the traces, where they are of several boots: nothing.
    of_all: Option<List>,
}

#[derive(Debug)]
struct List {
    place: Place,
    known: OnceLock<Known>,
}

/// Where a list is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Beside the trace.
    File(PathBuf),
    /// The kernel that runs was recorded.
    Running,
    /// Another kernel was.
    Nowhere,
    /// Several kernels were.
    Several,
}

#[derive(Debug)]
struct Known {
    symbols: KernelSymbols,
    /// Why there are none, or not all.
    missing: Option<String>,
}

impl KernelNames {
    /// For some traces.
    pub fn new(traces: &[Trace]) -> KernelNames {
        let mut places: Vec<Place> = Vec::new();
        let list_of = traces.iter().map(|trace| {
            let place = Place::of(trace);
            places.iter().position(|known| *known == place).unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            })
        });
        let list_of = list_of.collect();
        let are_of_one_boot = traces.windows(2).all(|pair| boot_of(&pair[0]) == boot_of(&pair[1]));
        KernelNames {
            lists: places.into_iter().map(List::new).collect(),
            list_of,
            of_all: (!are_of_one_boot).then(|| List::new(Place::Several)),
        }
    }

    /// Those that a trace has the same list as have the same number.
    pub(crate) fn list_of(&self, trace: usize) -> usize {
        self.list_of[trace]
    }

    /// All names of a list.
    pub(crate) fn symbols(&self, list: usize) -> &KernelSymbols {
        &self.lists[list].known().symbols
    }

    /// The function that an address is in, in all of the traces.
    pub fn function(&self, address: u64) -> Option<&str> {
        let lists = match &self.of_all {
            Some(list) => std::slice::from_ref(list),
            None => &self.lists,
        };
        lists.iter().find_map(|list| list.known().symbols.function(address))
    }

    /// Why some that were asked for are not known, if so: a sentence, for those who call them like this.
    pub fn note(&self, what: &str) -> Option<String> {
        let asked = self
            .lists
            .iter()
            .chain(&self.of_all)
            .filter_map(|list| list.known.get());
        let mut lacking = asked.filter_map(|known| known.missing.as_deref().map(|why| (known, why)));
        let (known, why) = lacking.next()?;
        Some(match known.symbols.is_empty() {
            true => format!("{what} have no names: {why}"),
            false => format!("some of {what} may have no names: {why}"),
        })
    }
}

impl List {
    fn new(place: Place) -> List {
        let known = OnceLock::new();
        List { place, known }
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| match &self.place {
            Place::File(path) => Known::of_file(path),
            Place::Running => Known::of_running(),
            Place::Nowhere => Known::nothing("the trace is from another boot or another machine"),
            Place::Several => Known::nothing("the traces are from several boots or machines"),
        })
    }
}

impl Place {
    fn of(trace: &Trace) -> Place {
        match mappings::beside(trace, KERNEL_SYMBOLS) {
            Some(path) => Place::File(path),
            None if is_of_this_boot([trace]) => Place::Running,
            None => Place::Nowhere,
        }
    }
}

impl Known {
    fn nothing(why: &str) -> Known {
        Known {
            symbols: KernelSymbols::default(),
            missing: Some(why.to_owned()),
        }
    }

    fn of_running() -> Known {
        match KernelSymbols::read().unwrap_or_default() {
            symbols if symbols.is_empty() => Known::nothing("only root may read their addresses"),
            symbols => Known { symbols, missing: None },
        }
    }

    /// What can be read of a file is used.
    fn of_file(path: &Path) -> Known {
        let mut list = Vec::new();
        let unreadable = open(path)
            .and_then(|file| MultiGzDecoder::new(file).take(LIST_BYTES_MAX).read_to_end(&mut list))
            .and_then(|bytes| match bytes as u64 {
                LIST_BYTES_MAX => Err(io::Error::other(format!(
                    "it is larger than {} MiB",
                    LIST_BYTES_MAX >> 20
                ))),
                _ => Ok(()),
            });
        let symbols = KernelSymbols::of_list(&String::from_utf8_lossy(&list));
        let path = path.display();
        let missing = match unreadable {
            Err(error) => Some(format!("cannot read all of {path}: {}", reason(&error))),
            Ok(()) => symbols.is_empty().then(|| format!("there are none in {path}")),
        };
        Known { symbols, missing }
    }
}

/// Traces are all of the time since this computer was started.
pub(crate) fn is_of_this_boot<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> bool {
    let boot = boot_id();
    boot.is_some() && traces.into_iter().all(|trace| boot_of(trace).contains(&boot))
}

/// What its clocks are known by.
fn boot_of(trace: &Trace) -> Vec<Option<[u8; 16]>> {
    trace.schema().clocks.iter().map(|clock| clock.uuid).collect()
}

/// What clocks of this boot are known by.
fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn what_can_be_read_of_a_file_is_used_and_the_rest_is_said() {
        let line = |number: u64| format!("{:x} T function_{number}\n", 0xffff_ffff_8100_0000 + 0x100 * number);
        let list: String = (0..10_000).map(line).collect();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(list.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KERNEL_SYMBOLS);
        let half = packed.len() / 2;
        let empty = GzEncoder::new(Vec::new(), Compression::fast()).finish().unwrap();
        for (bytes, begins, is_whole) in [
            (&packed[..], true, true),
            (&packed[..half], true, false),
            (b"no gzip at all", false, false),
            (&empty, false, false),
            (b"", false, false),
        ] {
            fs::write(&path, bytes).unwrap();
            let known = Known::of_file(&path);
            let function = |number: u64| known.symbols.function(0xffff_ffff_8100_0010 + 0x100 * number);
            assert_eq!(function(1), begins.then_some("function_1"));
            assert_eq!(function(9_998), is_whole.then_some("function_9998"));
            assert_eq!(known.missing.is_none(), is_whole, "{:?}", known.missing);
        }
        fs::remove_file(&path).unwrap();
        assert!(Known::of_file(folder.path()).missing.is_some());
    }
}
