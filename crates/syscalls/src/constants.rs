// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the values of arguments: `data/constants.tsv`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The names of an argument's values.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    /// What the set of names is called.
    set: &'static str,
    /// In the order in which they are written.
    values: Vec<(&'static str, u64)>,
    /// A value has one name or none, and is not made of bits.
    is_one: bool,
}

impl Names {
    /// Those of an argument of the call that programs know by `program_name`, on a processor as Rust calls it. `None` if its values have no
    /// names.
    pub fn of(program_name: &str, argument: &str, architecture: &str) -> Option<Names> {
        let set = ALL.sets_of.get(&(program_name, argument))?;
        let found = ALL.sets.get(set)?;
        Some(Names {
            set,
            values: values(&found.values, architecture),
            is_one: found.is_one,
        })
    }

    /// A value by its names: one name, or several with `|` between them, and a number for the rest.
    pub fn written(&self, value: u64) -> String {
        let mode = self.access_mode(value);
        let exact = self.values.iter().find(|(_, named)| *named == value);
        if let Some((name, named)) = exact
            && (mode.is_none() || *named == 0)
        {
            return (*name).to_owned();
        }
        if value == 0 {
            return "0".to_owned();
        }
        if self.is_one {
            return format!("{value:#x}");
        }
        // Of names that share bits, the one with the most.
        let mut by_bits: Vec<usize> = (0..self.values.len()).collect();
        by_bits.sort_by_key(|index| std::cmp::Reverse(self.values[*index].1.count_ones()));
        let (mut rest, mut found) = (value, Vec::new());
        for index in by_bits {
            let named = self.values[index].1;
            if named != 0 && rest & named == named {
                rest &= !named;
                found.push(index);
            }
        }
        found.sort_unstable();
        let mut words: Vec<String> = mode.into_iter().map(str::to_owned).collect();
        words.extend(found.iter().map(|index| self.values[*index].0.to_owned()));
        if rest != 0 {
            words.push(format!("{rest:#x}"));
        }
        words.join("|")
    }

    /// Files are opened for reading if no bit says otherwise.
    fn access_mode(&self, value: u64) -> Option<&'static str> {
        const O_ACCMODE: u64 = 3;
        let zero = self.values.iter().find(|(_, named)| *named == 0)?;
        (self.set == "open_flags" && value & O_ACCMODE == 0).then_some(zero.0)
    }
}

struct All {
    /// By call and argument.
    sets_of: HashMap<(&'static str, &'static str), &'static str>,
    /// `O_DIRECT=0x4000 arm64=0x10000`
    sets: HashMap<&'static str, Set>,
}

struct Set {
    values: Vec<&'static str>,
    is_one: bool,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let mut all = All {
        sets_of: HashMap::new(),
        sets: HashMap::new(),
    };
    let lines = include_str!("../data/constants.tsv").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let mut columns = line.split('\t');
        let Some(first) = columns.next() else { continue };
        match first.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(set) => {
                let (set, is_one) = set.strip_prefix('=').map_or((set, false), |set| (set, true));
                let values = columns.collect();
                all.sets.insert(set, Set { values, is_one });
            }
            None => {
                if let (Some(argument), Some(set)) = (columns.next(), columns.next()) {
                    all.sets_of.insert((first, argument), set);
                }
            }
        }
    }
    all
});

fn values(texts: &[&'static str], architecture: &str) -> Vec<(&'static str, u64)> {
    let key = match architecture {
        "x86" => "386",
        "aarch64" => "arm64",
        other => other,
    };
    let value = |text: &'static str| {
        let mut words = text.split(' ');
        let (name, first) = words.next()?.split_once('=')?;
        let own = words.find_map(|word| word.split_once('=').filter(|(known, _)| *known == key));
        let digits = own.map_or(first, |(_, own)| own).strip_prefix("0x")?;
        Some((name, u64::from_str_radix(digits, 16).ok()?))
    };
    texts.iter().filter_map(|text| value(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: &str, argument: &str, value: u64, expected: &str) {
        let names = Names::of(call, argument, "x86_64").expect("they have names");
        assert_eq!(names.written(value), expected, "{call} {argument} {value:#x}");
    }

    #[test]
    fn values_are_written_by_their_names() {
        check("openat", "flags", 0, "O_RDONLY");
        check("openat", "flags", 0x80000, "O_RDONLY|O_CLOEXEC");
        check("openat", "flags", 0x241, "O_WRONLY|O_CREAT|O_TRUNC");
        check("openat", "flags", 0x101002, "O_RDWR|O_SYNC");
        check("mmap", "prot", 5, "PROT_READ|PROT_EXEC");
        check("mmap", "flags", 0x22, "MAP_PRIVATE|MAP_ANONYMOUS");
        check("lseek", "whence", 2, "SEEK_END");
        check("madvise", "behavior", 4, "MADV_DONTNEED");
        check("mmap", "prot", 0x8000_0001, "PROT_READ|0x80000000");
        check("openat", "flags", 0x90800, "O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_DIRECTORY");
        check("openat", "flags", 0x41_0002, "O_RDWR|O_TMPFILE");
        check("futex", "op", 0x189, "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME");
        check("fcntl", "cmd", 1030, "F_DUPFD_CLOEXEC");
        check("fcntl", "cmd", 99, "0x63");
    }

    /// The names are those of the headers of this machine, if it has them.
    #[test]
    fn names_that_syzkaller_lacks_are_those_of_the_headers() {
        const CLOSE_RANGE: &str = "CLOSE_RANGE_UNSHARE CLOSE_RANGE_CLOEXEC";
        for (header, call, argument, names) in [
            ("unistd.h", "access", "mode", "F_OK R_OK W_OK X_OK"),
            ("linux/close_range.h", "close_range", "flags", CLOSE_RANGE),
        ] {
            let Ok(text) = std::fs::read_to_string(format!("/usr/include/{header}")) else {
                println!("skipped: there is no {header}");
                continue;
            };
            let known = Names::of(call, argument, "x86_64").expect("they have names");
            for name in names.split(' ') {
                // `#define X_OK 1`, `#define CLOSE_RANGE_CLOEXEC (1U << 2)`
                let mut definitions = text.lines().filter_map(|line| line.strip_prefix("#define"));
                let value = definitions
                    .find_map(|rest| rest.trim_start().strip_prefix(name))
                    .expect(name);
                let words: Vec<&str> = value.split_whitespace().collect();
                let number = |word: &str| word.trim_matches(['(', ')', 'U']).parse::<u64>().expect(word);
                let value = match words.as_slice() {
                    [first, "<<", bits, ..] => number(first) << number(bits),
                    words => number(words[0]),
                };
                assert_eq!(known.written(value), name, "{header}");
            }
        }
    }

    #[test]
    fn values_differ_between_processors() {
        for (architecture, direct) in [("x86_64", 0x4000), ("aarch64", 0x10000), ("riscv64", 0x4000)] {
            let names = Names::of("openat", "flags", architecture).expect("they have names");
            assert_eq!(names.written(direct), "O_RDONLY|O_DIRECT", "{architecture}");
        }
        let names = Names::of("recv", "flags", "aarch64").expect("they have names");
        assert_eq!(names.written(2), "MSG_PEEK");
        assert_eq!(Names::of("openat", "filename", "x86_64"), None);
    }
}
