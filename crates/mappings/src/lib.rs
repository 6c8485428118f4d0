// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files beside traces that say what lies at addresses; docs/reference/trace-format.md describes them. pisted writes them, crates/modelling reads
//! them to name addresses. `mappings.jsonl` says which programs and libraries were mapped where, in which process, from when on: one JSON object a
//! line. `kallsyms.gz` has the symbols of the kernel.

use serde::{Deserialize, Serialize};

/// Its name, in the folder of a recording.
pub const FILE_NAME: &str = "mappings.jsonl";

/// The name of the file beside it that has the kernel's symbols, if events have the kernel's stacks: text like that of /proc/kallsyms, packed by gzip.
/// Behind an empty line are those that the kernel has had since the recording began.
pub const KERNEL_SYMBOLS: &str = "kallsyms.gz";

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

    #[test]
    fn lines_are_read_as_they_are_written() {
        for change in [
            Change::Mapped(Mapped {
                pid: 7,
                path: "/usr/bin/python3.11".to_owned(),
                address: 0xffff_ffff_ff60_0000,
                bytes: 4096,
                file_offset: 0x1000,
                build_id: "0aff".to_owned(),
            }),
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
