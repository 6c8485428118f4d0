// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open files of a process, from /proc/PID/fd and /proc/PID/fdinfo.

use std::os::unix::ffi::OsStrExt;

use super::event::{Event, File};
use super::reading::{Reading, numbers_in, text};

/// A process may have a million; viewers want the ones that events name.
const FILES_MAX: usize = 16 << 10;

pub(super) fn collect(pid: i32, reading: &mut Reading, tell: &mut dyn FnMut(&Event)) {
    for descriptor in numbers_in(format!("/proc/{pid}/fd")).into_iter().take(FILES_MAX) {
        let Ok(name) = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")) else {
            continue;
        };
        let info = reading.file(format!("/proc/{pid}/fdinfo/{descriptor}"));
        let flags = info.and_then(flags).unwrap_or(0);
        tell(&Event::File(File {
            pid,
            descriptor,
            flags,
            mode: mode(flags),
            name: text(name.as_os_str().as_bytes()),
        }));
    }
}

/// The line `flags:\t02100002`, in octal.
fn flags(info: &[u8]) -> Option<u32> {
    let line = std::str::from_utf8(info)
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// To read, to write, or both: the two low bits of the flags say it, counted from 0. The third value opens a file for neither.
fn mode(flags: u32) -> u32 {
    match flags & 3 {
        3 => 0,
        access => access + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_octal_and_tell_the_mode() {
        let info = b"pos:\t0\nflags:\t02100002\nmnt_id:\t30\n";
        assert_eq!(flags(info), Some(0o2_100_002));
        assert_eq!(flags(b"pos:\t0\n"), None);
        assert_eq!([0, 1, 2, 3].map(mode), [1, 2, 3, 0]);
    }
}
