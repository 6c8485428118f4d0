// SPDX-License-Identifier: MIT OR Apache-2.0
//! The probes that the kernel has: its lists, and the one way to write them.
//!
//! A list is only ever added to. Opening one to replace it makes the kernel remove everybody's probes.

use std::io;

use crate::tracefs::Tracefs;

/// A list that changes as often as it is read is taken as it is.
const READS_MAX: u32 = 20;

/// A list of probes in tracefs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Programs,
    Kernel,
}

impl List {
    pub(super) const ALL: [List; 2] = [List::Programs, List::Kernel];

    pub(super) fn file(self) -> &'static str {
        match self {
            List::Programs => "uprobe_events",
            List::Kernel => "kprobe_events",
        }
    }

    /// Group and name of every probe in it; a probe with several places comes several times. Nothing when the kernel has no such list.
    pub(super) fn read(self, tracefs: &Tracefs) -> io::Result<Vec<(String, String)>> {
        match stable(|| tracefs.read(self.file())) {
            Ok(text) => Ok(text.lines().filter_map(parse).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn add(self, tracefs: &Tracefs, command: &str) -> io::Result<()> {
        tracefs.append(self.file(), command)
    }
}

/// What a list says. The kernel tells it in pieces of a memory page, and counts the probes that it has told: if another process removes one of those
/// meanwhile, it leaves out one that is there. Then the list is another one the next time, so it is read until it says the same twice.
fn stable(read: impl Fn() -> io::Result<String>) -> io::Result<String> {
    let mut text = read()?;
    for _ in 0..READS_MAX {
        let again = read()?;
        if again == text {
            break;
        }
        text = again;
    }
    Ok(text)
}

/// `p:GROUP/EVENT PLACE ARGUMENTS`, with a count after an `r` in some lists.
fn parse(line: &str) -> Option<(String, String)> {
    let (_kind, rest) = line.split_once(':')?;
    let (group, rest) = rest.split_once('/')?;
    let event = rest.split_ascii_whitespace().next()?;
    Some((group.into(), event.into()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_list_that_changes_while_it_is_read_is_read_again() {
        // The second probe is removed during the first reading, which therefore leaves out the third.
        let readings = ["a b d", "a c d", "a c d"];
        let count = Cell::new(0);
        let read = || {
            count.set(count.get() + 1);
            Ok(readings[count.get() - 1].to_owned())
        };
        assert_eq!(stable(read).unwrap(), "a c d");
        let changing = || {
            count.set(count.get() + 1);
            Ok(count.get().to_string())
        };
        assert_eq!(stable(changing).unwrap(), "24");
    }

    #[test]
    fn lines_of_every_kind_are_read() {
        let list = "p:g/a /bin/x:0x10 arg1=%di\nr16:g/b do_exit\np:g/c /b:0x0(0x4010)\n\nnonsense\n";
        let names: Vec<_> = list
            .lines()
            .filter_map(parse)
            .map(|(group, event)| format!("{group}:{event}"))
            .collect();
        assert_eq!(names, ["g:a", "g:b", "g:c"]);
    }
}
