// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the kernel that runs, as /proc/kallsyms lists them for those who may see addresses.

use std::fs;
use std::io;

/// All of them, by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    functions: Vec<(u64, Box<str>)>,
}

impl KernelSymbols {
    /// Of the kernel that runs now.
    ///
    /// # Errors
    /// The list cannot be read. One in which addresses are hidden is read, and empty.
    pub fn read() -> io::Result<KernelSymbols> {
        Ok(KernelSymbols::parse(&fs::read_to_string("/proc/kallsyms")?))
    }

    /// Lines `ADDRESS TYPE NAME[ [MODULE]]`.
    fn parse(text: &str) -> KernelSymbols {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok()?;
            (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then(|| (address, Box::from(name)))
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        // Of several names of a place the first in the list.
        functions.sort_by_key(|(address, _)| *address);
        functions.dedup_by_key(|(address, _)| *address);
        KernelSymbols { functions }
    }

    /// There are none, or none may be seen.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that an address is in. The list does not say how long they are: up to the next one.
    pub fn function(&self, address: u64) -> Option<&str> {
        let place = self.functions.partition_point(|(begin, _)| *begin <= address);
        // Behind the last one lies anything.
        (place < self.functions.len()).then_some(())?;
        Some(&self.functions[place.checked_sub(1)?].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let list = "\
ffffffff81000000 T _stext
ffffffff81000100 t schedule
ffffffff81000100 T schedule_alias
ffffffff81000180 d some_data
ffffffff81000200 T wake_up	[module]
0000000000000000 T hidden
";
        let symbols = KernelSymbols::parse(list);
        for (address, expected) in [
            (0xffff_ffff_8100_0000, Some("_stext")),
            (0xffff_ffff_8100_01ff, Some("schedule")),
            (0xffff_ffff_80ff_ffff, None),
            (0xffff_ffff_8100_0200, None),
        ] {
            assert_eq!(symbols.function(address), expected, "{address:#x}");
        }
        assert!(KernelSymbols::parse("0000000000000000 T hidden\n").is_empty());
    }
}
