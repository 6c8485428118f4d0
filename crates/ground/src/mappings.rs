// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file `mappings.jsonl` of a recording: which programs and libraries were mapped where, in which process, from when on. `piste record`
//! writes it beside the traces; it is read to name addresses. One JSON object a line, see docs/reference/trace-format.md.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use piste_trace::Trace;
use serde::{Deserialize, Serialize};

/// Its name, in the folder of a recording.
pub const FILE_NAME: &str = "mappings.jsonl";

/// A process has parents, and these have parents: more of them are damage.
const ANCESTORS_MAX: u32 = 1000;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in nanoseconds since the epoch.
    #[serde(with = "as_text")]
    pub time_ns: i64,
    /// What happened.
    #[serde(flatten)]
    pub change: Change,
}

/// What happens to the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Change {
    /// The code of a program or library is mapped.
    Mapped(Mapped),
    /// The process becomes another program: everything that was mapped is gone.
    Executed {
        /// The process.
        pid: i32,
    },
    /// A process begins with the memory of another one.
    Forked {
        /// The process.
        pid: i32,
        /// The other one.
        parent_pid: i32,
    },
    /// Some changes are missing before this one.
    Lost,
}

/// The code of a program or library in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mapped {
    /// The process.
    pub pid: i32,
    /// The file, or what the kernel calls it: `[vdso]`.
    pub path: String,
    /// Where it begins in memory.
    #[serde(with = "as_hex")]
    pub address: u64,
    /// How much is mapped.
    pub bytes: u64,
    /// Where that begins in the file.
    pub file_offset: u64,
    /// In hex digits; empty where the file has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build_id: String,
}

/// What happened to the memory of the processes of a recording, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// By process.
    changes: HashMap<i32, Vec<(i64, Change)>>,
    /// Some are missing.
    pub(crate) has_losses: bool,
}

impl Mappings {
    /// Of the recordings that these traces are of; `None` where there is no such file.
    pub(crate) fn of(traces: &[Trace]) -> Option<Mappings> {
        // A trace is in a folder for its domain, which may be in one for a snapshot, or in archives/ and one for a chunk.
        let around = |trace: &Trace| -> Vec<PathBuf> {
            let folder = std::path::absolute(&trace.folder).unwrap_or_default();
            let folders = folder.ancestors().skip(1).take(3);
            folders.map(|folder| folder.join(FILE_NAME)).collect()
        };
        let mut paths: Vec<PathBuf> = traces.iter().flat_map(around).filter(|path| path.is_file()).collect();
        paths.sort();
        paths.dedup();
        let mut lines = Vec::new();
        let mut mappings = Mappings::default();
        for path in &paths {
            mappings.has_losses |= !read(path, &mut lines);
        }
        lines.sort_by_key(|line| line.time_ns);
        for Line { time_ns, change } in lines {
            let pid = match &change {
                Change::Mapped(mapped) => mapped.pid,
                Change::Executed { pid } | Change::Forked { pid, .. } => *pid,
                Change::Lost => {
                    mappings.has_losses = true;
                    continue;
                }
            };
            mappings.changes.entry(pid).or_default().push((time_ns, change));
        }
        (!paths.is_empty()).then_some(mappings)
    }

    /// What is mapped in a process at a time, by where it begins.
    pub(crate) fn at(&self, pid: i32, ns: i64) -> BTreeMap<u64, &Mapped> {
        self.up_to(pid, ns, ANCESTORS_MAX)
    }

    fn up_to(&self, pid: i32, ns: i64, ancestors_max: u32) -> BTreeMap<u64, &Mapped> {
        let mut mapped = BTreeMap::new();
        let changes = self.changes.get(&pid).map_or(&[][..], Vec::as_slice);
        let changes = &changes[..changes.partition_point(|(time_ns, _)| *time_ns <= ns)];
        let is_begin = |(_, change): &(i64, Change)| matches!(change, Change::Executed { .. } | Change::Forked { .. });
        let begin = changes.iter().rposition(is_begin);
        if let Some((fork_ns, Change::Forked { parent_pid, .. })) = begin.map(|place| &changes[place])
            && ancestors_max > 0
            && *parent_pid != pid
        {
            mapped = self.up_to(*parent_pid, *fork_ns, ancestors_max - 1);
        }
        for (_, change) in &changes[begin.map_or(0, |place| place + 1)..] {
            if let Change::Mapped(new) = change {
                let end = new.address.saturating_add(new.bytes);
                // What lay there is gone.
                mapped.retain(|address, old: &mut &Mapped| {
                    *address >= end || address.saturating_add(old.bytes) <= new.address
                });
                mapped.insert(new.address, new);
            }
        }
        mapped
    }
}

/// Adds the lines of a file; false when some could not be read.
fn read(path: &Path, to: &mut Vec<Line>) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut all = true;
    for line in BufReader::new(file).lines() {
        let Ok(line) = line else { return false };
        match serde_json::from_str(&line) {
            Ok(line) => to.push(line),
            Err(_) => all = false,
        }
    }
    all
}

/// Numbers that readers of JSON would round.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Addresses, as people know them.
mod as_hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{address:#x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pid: i32, path: &str, address: u64, bytes: u64) -> Change {
        Change::Mapped(Mapped {
            pid,
            path: path.to_owned(),
            address,
            bytes,
            file_offset: 0x1000,
            build_id: "0aff".to_owned(),
        })
    }

    fn mappings(changes: &[(i64, Change)]) -> Mappings {
        let mut mappings = Mappings::default();
        for (ns, change) in changes {
            let pid = match change {
                Change::Mapped(mapped) => mapped.pid,
                Change::Executed { pid } | Change::Forked { pid, .. } => *pid,
                Change::Lost => continue,
            };
            mappings.changes.entry(pid).or_default().push((*ns, change.clone()));
        }
        mappings
    }

    fn paths(mappings: &Mappings, pid: i32, ns: i64) -> Vec<&str> {
        mappings.at(pid, ns).values().map(|mapped| &*mapped.path).collect()
    }

    #[test]
    fn a_process_has_the_memory_of_its_parent_until_it_executes_a_program() {
        let mappings = mappings(&[
            (1, mapped(1, "/bin/sh", 0x1000, 0x1000)),
            (3, mapped(1, "/lib/late", 0x8000, 0x1000)),
            (2, Change::Forked { pid: 2, parent_pid: 1 }),
            (4, mapped(2, "/lib/a", 0x4000, 0x1000)),
            (5, Change::Executed { pid: 2 }),
            (6, mapped(2, "/bin/ls", 0x2000, 0x1000)),
        ]);
        assert_eq!(paths(&mappings, 2, 1), [""; 0]);
        assert_eq!(paths(&mappings, 2, 4), ["/bin/sh", "/lib/a"]);
        assert_eq!(paths(&mappings, 2, 5), [""; 0]);
        assert_eq!(paths(&mappings, 2, 9), ["/bin/ls"]);
        assert_eq!(paths(&mappings, 1, 9), ["/bin/sh", "/lib/late"]);
    }

    #[test]
    fn what_is_mapped_over_something_takes_its_place() {
        let mappings = mappings(&[
            (1, mapped(1, "/a", 0x1000, 0x2000)),
            (2, mapped(1, "/b", 0x4000, 0x1000)),
            (3, mapped(1, "/c", 0x2000, 0x1000)),
            // It is its own parent: damage.
            (0, Change::Forked { pid: 7, parent_pid: 7 }),
        ]);
        assert_eq!(paths(&mappings, 1, 9), ["/c", "/b"]);
        assert_eq!(paths(&mappings, 7, 9), [""; 0]);
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for change in [
            mapped(7, "/usr/bin/python3.11", 0xffff_ffff_ff60_0000, 4096),
            Change::Executed { pid: 7 },
            Change::Forked { pid: 8, parent_pid: 7 },
            Change::Lost,
        ] {
            let line = Line {
                time_ns: 1_790_000_000_123_456_789,
                change,
            };
            let text = serde_json::to_string(&line).expect("it can be written");
            assert_eq!(serde_json::from_str::<Line>(&text).expect(&text), line, "{text}");
        }
    }
}
