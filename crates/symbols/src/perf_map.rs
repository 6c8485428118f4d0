// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of code that a process made while it ran: interpreters and compilers at run time write them to `/tmp/perf-PID.map` for `perf`.
//!
//! Anybody may put such a file there, with anything in it: it is read with care, and the caller decides whose it may be.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::binary;

/// No more of a file is read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Names are cut to this.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// The names of a process.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// By where they begin. None lies over another one.
    symbols: BTreeMap<u64, (u64, Box<str>)>,
    /// Lines that cannot be understood.
    pub damaged_lines: u64,
    /// The file is larger than what was read of it.
    pub is_cut: bool,
}

impl PerfMap {
    /// Where the file of a process is.
    pub fn path(pid: i32) -> PathBuf {
        format!("/tmp/perf-{pid}.map").into()
    }

    /// Reads the file at a path, if `is_trusted` accepts it; a link is no file.
    ///
    /// # Errors
    /// There is none, it cannot be read, or it is not a file that is trusted.
    pub fn open(path: &Path, is_trusted: impl FnOnce(&Metadata) -> bool) -> io::Result<PerfMap> {
        PerfMap::read(binary::open_itself(path, is_trusted)?)
    }

    fn read(file: File) -> io::Result<PerfMap> {
        let is_cut = file.metadata()?.len() > FILE_BYTES_MAX;
        let mut map = PerfMap::parse(BufReader::new(file.take(FILE_BYTES_MAX)))?;
        map.is_cut = is_cut;
        Ok(map)
    }

    /// Lines `BEGIN BYTES NAME`, numbers in base 16. What comes later takes the place of what it lies over.
    fn parse(mut from: impl BufRead) -> io::Result<PerfMap> {
        let mut map = PerfMap::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(map);
            }
            match symbol(&line) {
                Some((begin, end, name)) => map.add(begin, end, name),
                None => map.damaged_lines += 1,
            }
            while line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
                line.clear();
                from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            }
        }
    }

    fn add(&mut self, begin: u64, end: u64, name: Box<str>) {
        while let Some((&other, (other_end, _))) = self.symbols.range(..end).next_back()
            && *other_end > begin
        {
            self.symbols.remove(&other);
        }
        self.symbols.insert(begin, (end, name));
    }

    /// What an address is in, and how far behind its begin the address is.
    pub fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let (begin, (end, name)) = self.symbols.range(..=address).next_back()?;
        (address < *end).then(|| (&**name, address - begin))
    }
}

fn symbol(line: &[u8]) -> Option<(u64, u64, Box<str>)> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.trim_end().splitn(3, ' ');
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok();
    let (begin, bytes, name) = (number(words.next()?)?, number(words.next()?)?, words.next()?.trim());
    // Some write no size.
    let end = begin.checked_add(bytes.max(1))?;
    (!name.is_empty()).then(|| (begin, end, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> PerfMap {
        PerfMap::parse(text).expect("memory can be read")
    }

    #[test]
    fn code_has_the_name_that_was_written_last() {
        let map = parse(
            b"7f0000001000 20 py::serve:/srv/shop.py\n\
              7f0000001020 10 LazyCompile:~take order.js:3\r\n\
              0x7f0000003000 0x0 stub\n\
              7f0000002000 100 old\n\
              7f0000002080 100 new",
        );
        assert_eq!((map.damaged_lines, map.is_cut), (0, false));
        for (address, expected) in [
            (0x7f00_0000_0fff, None),
            (0x7f00_0000_1000, Some(("py::serve:/srv/shop.py", 0))),
            (0x7f00_0000_101f, Some(("py::serve:/srv/shop.py", 0x1f))),
            (0x7f00_0000_1028, Some(("LazyCompile:~take order.js:3", 8))),
            (0x7f00_0000_1030, None),
            (0x7f00_0000_2000, None),
            (0x7f00_0000_217f, Some(("new", 0xff))),
            (0x7f00_0000_3000, Some(("stub", 0))),
            (0x7f00_0000_3001, None),
        ] {
            assert_eq!(map.symbol(address), expected, "{address:#x}");
        }
    }

    #[test]
    fn damaged_lines_are_counted_and_passed_over() {
        let long = [
            &b"1000 10 "[..],
            &vec![b'x'; 3 * LINE_BYTES_MAX as usize],
            b"\n2000 10 next\n",
        ]
        .concat();
        let map = parse(&long);
        assert_eq!((map.damaged_lines, map.symbol(0x2000)), (0, Some(("next", 0))));
        let (name, _) = map.symbol(0x1000).expect("it is there");
        assert_eq!(name.len(), LINE_BYTES_MAX as usize - "1000 10 ".len());
        for (text, damaged) in [
            (&b""[..], 0),
            (b"\n", 1),
            (b"nonsense\n1000 10\n1000 10 \n1000  10 two\n", 4),
            (b"-1 10 minus\n1000 zz size\nffffffffffffffff 10 end\n", 3),
            (b"\xff\xfe\x00 10 bytes\n1000 10 \xff\n", 1),
        ] {
            assert_eq!(
                parse(text).damaged_lines,
                damaged,
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn only_files_that_are_trusted_are_read() {
        let folder = tempfile::tempdir().expect("a folder can be made there");
        let (map, link) = (folder.path().join("map"), folder.path().join("link"));
        std::fs::write(&map, "1000 10 serve\n").expect("it can be written");
        std::os::unix::fs::symlink(&map, &link).expect("a link can be made there");
        let read = PerfMap::open(&map, |_| true).expect("it is a file");
        assert_eq!(read.symbol(0x1001), Some(("serve", 1)));
        assert!(PerfMap::open(&map, |_| false).is_err());
        assert!(PerfMap::open(&link, |_| true).is_err());
        assert!(PerfMap::open(folder.path(), |_| true).is_err());
        assert!(PerfMap::open(&folder.path().join("none"), |_| true).is_err());
    }
}
