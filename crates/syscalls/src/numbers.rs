// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of errors and signals: `data/errors.tsv`, `data/signals.tsv`.

use std::sync::LazyLock;

/// The name of an error: `ENOENT` for 2.
pub fn error_name(number: u32) -> Option<&'static str> {
    static NAMES: LazyLock<Vec<(u32, &str)>> = LazyLock::new(|| named(include_str!("../data/errors.tsv")));
    find(&NAMES, number)
}

/// The name of a signal: `SIGKILL` for 9.
pub fn signal_name(number: u32) -> Option<&'static str> {
    static NAMES: LazyLock<Vec<(u32, &str)>> = LazyLock::new(|| named(include_str!("../data/signals.tsv")));
    find(&NAMES, number)
}

fn find(names: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    let index = names.binary_search_by_key(&number, |(known, _)| *known).ok()?;
    Some(names[index].1)
}

/// In the order of the numbers.
fn named(text: &'static str) -> Vec<(u32, &'static str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| {
        let (number, name) = line.split_once('\t')?;
        Some((number.parse().ok()?, name))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        assert_eq!(
            (error_name(2), error_name(111), error_name(5000)),
            (Some("ENOENT"), Some("ECONNREFUSED"), None)
        );
        assert_eq!(
            (signal_name(9), signal_name(17), signal_name(0)),
            (Some("SIGKILL"), Some("SIGCHLD"), None)
        );
    }

    /// The names are those of the headers of this machine, if it has them.
    #[test]
    fn names_are_those_of_the_headers() {
        let headers = [("errno-base.h", "E"), ("errno.h", "E"), ("signal.h", "SIG")];
        for (header, prefix) in headers {
            let Ok(text) = std::fs::read_to_string(format!("/usr/include/asm-generic/{header}")) else {
                println!("skipped: there is no asm-generic/{header}");
                continue;
            };
            for line in text.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [define, name, number, ..] = words[..] else {
                    continue;
                };
                let (true, true, Ok(number)) = (define == "#define", name.starts_with(prefix), number.parse()) else {
                    continue;
                };
                let known = if prefix == "E" {
                    error_name(number)
                } else {
                    signal_name(number)
                };
                // Other names of SIGABRT, SIGIO and SIGSYS; real-time signals begin at 32.
                let is_other =
                    matches!(name, "SIGIOT" | "SIGPOLL" | "SIGLOST" | "SIGUNUSED") || number >= 32 && prefix == "SIG";
                assert!(known == Some(name) || is_other, "{header}: {line}");
            }
        }
    }
}
