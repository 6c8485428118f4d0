// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions and variables of a kernel, as /proc/kallsyms lists them for those who may see addresses.

use std::collections::HashMap;
use std::fs;
use std::io;

/// All of them, by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    symbols: Vec<Symbol>,
}

#[derive(Debug)]
struct Symbol {
    address: u64,
    kind: Kind,
    /// Which module it is of; 0 is the kernel itself.
    module: u32,
    came_later: bool,
    name: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Data,
    /// It only says that what is before it ends there.
    End,
}

impl Symbol {
    fn of_line<'l>(line: &'l str, came_later: bool, modules: &mut HashMap<&'l str, u32>) -> Option<Symbol> {
        let mut words = line.split_ascii_whitespace();
        let (address, letter, name) = (words.next()?, words.next()?, words.next()?);
        let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
        let kind = match letter {
            _ if ENDS.contains(&name) => Kind::End,
            "t" | "T" | "w" | "W" => Kind::Code,
            "d" | "D" | "b" | "B" | "r" | "R" | "v" | "V" => Kind::Data,
            _ => return None,
        };
        let next = modules.len() as u32 + 1;
        let module = words.next().map_or(0, |module| *modules.entry(module).or_insert(next));
        Some(Symbol {
            address,
            kind,
            module,
            came_later,
            name: name.into(),
        })
    }
}

/// Names for the ends of parts of the kernel. What lies behind them is not theirs.
const ENDS: [&str; 8] = [
    "_etext",
    "_einittext",
    "_edata",
    "_end",
    "__bss_stop",
    "__brk_limit",
    "__end_rodata",
    "__init_end",
];

/// A list with variables has more of them than one for so many functions.
const LEAST_DATA_SHARE: usize = 10;

/// Modules, and the kernel's own parts, begin at multiples of it.
const PAGE_BYTES: u64 = 4096;

impl KernelSymbols {
    /// Of the kernel that runs now.
    ///
    /// # Errors
    /// The list cannot be read. One in which addresses are hidden is read, and empty.
    pub fn read() -> io::Result<KernelSymbols> {
        Ok(KernelSymbols::of_list(&fs::read_to_string("/proc/kallsyms")?))
    }

    /// Of a list like /proc/kallsyms: lines `ADDRESS TYPE NAME[ [MODULE]]`. Behind an empty line may be a list of what came later, to modules and the
    /// like. Where both have something, and not the same, neither is known.
    pub fn of_list(text: &str) -> KernelSymbols {
        let (first, later) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut modules: HashMap<&str, u32> = HashMap::new();
        let mut of_line = |line, came_later| Symbol::of_line(line, came_later, &mut modules);
        let mut symbols: Vec<Symbol> = first.lines().filter_map(|line| of_line(line, false)).collect();
        let count = |kind| symbols.iter().filter(|symbol| symbol.kind == kind).count();
        // Without CONFIG_KALLSYMS_ALL, the list has no variables, only where sections with data begin and end.
        if count(Kind::Data) * LEAST_DATA_SHARE < count(Kind::Code) {
            let data = symbols.iter_mut().filter(|symbol| symbol.kind == Kind::Data);
            data.for_each(|symbol| symbol.kind = Kind::End);
        }
        symbols.extend(later.lines().filter_map(|line| of_line(line, true)));
        // Of several names of a place the first in the list.
        symbols.sort_by_key(|symbol| (symbol.address, symbol.came_later, symbol.kind == Kind::End));
        symbols.dedup_by(|next, kept| {
            let is_same = next.address == kept.address;
            if is_same && next.came_later != kept.came_later {
                kept.kind = Kind::End;
            }
            is_same
        });
        KernelSymbols { symbols }
    }

    /// There are none, or none may be seen.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function that an address is in.
    pub fn function(&self, address: u64) -> Option<&str> {
        let symbol = self.at(address).filter(|symbol| symbol.kind == Kind::Code)?;
        Some(&symbol.name)
    }

    /// The function or variable that an address is in, and how far behind its begin the address is.
    pub fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let symbol = self.at(address).filter(|symbol| symbol.kind != Kind::End)?;
        Some((&symbol.name, address - symbol.address))
    }

    /// The list does not say how long they are: up to the next one, if that is of the same module; else to the end of the page.
    fn at(&self, address: u64) -> Option<&Symbol> {
        let place = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = &self.symbols[place.checked_sub(1)?];
        let goes_on = self.symbols.get(place).is_some_and(|next| next.module == symbol.module);
        (goes_on || address / PAGE_BYTES == symbol.address / PAGE_BYTES).then_some(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_symbol_before_it_and_data_is_no_function() {
        let list = "\
ffffffff81000000 T _stext
ffffffff81000100 t schedule
ffffffff81000100 T schedule_alias
ffffffff81000300 T _etext
ffffffff81200000 D jiffies
ffffffff81200008 d runqueues
ffffffff81200108 A absolute
ffffffff81300000 B _end
ffffffffc0000000 t first	[module]
ffffffffc0002000 t last	[module]
ffffffffc0800000 d table	[other]
0000000000000000 T hidden
";
        let symbols = KernelSymbols::of_list(list);
        for (address, symbol, is_function) in [
            (0xffff_ffff_80ff_ffff, None, false),
            (0xffff_ffff_8100_0000, Some(("_stext", 0)), true),
            (0xffff_ffff_8100_01ff, Some(("schedule", 0xff)), true),
            // Between the code and the data lies neither.
            (0xffff_ffff_8100_0300, None, false),
            (0xffff_ffff_8110_0000, None, false),
            (0xffff_ffff_8120_0000, Some(("jiffies", 0)), false),
            (0xffff_ffff_8120_0109, Some(("runqueues", 0x101)), false),
            (0xffff_ffff_8130_0000, None, false),
            (0xffff_ffff_a000_0000, None, false),
            // A function may be longer than a page, but how long the last one of a module is, nobody knows.
            (0xffff_ffff_c000_1fff, Some(("first", 0x1fff)), true),
            (0xffff_ffff_c000_2010, Some(("last", 0x10)), true),
            (0xffff_ffff_c000_3000, None, false),
            (0xffff_ffff_c080_0fff, Some(("table", 0xfff)), false),
            (0xffff_ffff_c080_1000, None, false),
        ] {
            assert_eq!(symbols.symbol(address), symbol, "{address:#x}");
            let function = symbol.filter(|_| is_function).map(|(name, _)| name);
            assert_eq!(symbols.function(address), function, "{address:#x}");
        }
        assert!(KernelSymbols::of_list("0000000000000000 T hidden\n").is_empty());
    }

    #[test]
    fn what_came_later_has_names_where_nothing_else_was() {
        let list = "\
ffffffff81000000 T _stext
ffffffffc0001000 t first\t[bpf]
ffffffffc0001800 t second\t[bpf]

ffffffffc0001800 t third\t[bpf]
ffffffffc0003000 t fourth\t[module]
ffffffffc0003000 t alias\t[module]
";
        let symbols = KernelSymbols::of_list(list);
        for (address, name) in [
            (0xffff_ffff_8100_0010, Some("_stext")),
            (0xffff_ffff_c000_1010, Some("first")),
            (0xffff_ffff_c000_1810, None),
            (0xffff_ffff_c000_3010, Some("fourth")),
        ] {
            assert_eq!(symbols.function(address), name, "{address:#x}");
        }
    }

    #[test]
    fn a_list_without_variables_names_no_data() {
        let function = |number: u64| format!("{:x} t function_{number}\n", 0xffff_ffff_8100_0000 + 0x100 * number);
        let mut list: String = (0..20).map(function).collect();
        list += "ffffffff82400000 D __start_rodata\nffffffff82860120 D __start_ro_after_init\n";
        let named = |list: &str, address| KernelSymbols::of_list(list).symbol(address).is_some();
        assert!(named(&list, 0xffff_ffff_8240_0010));
        list += &function(20);
        assert!(!named(&list, 0xffff_ffff_8240_0010) && !named(&list, 0xffff_ffff_8240_0000));
        assert!(named(&list, 0xffff_ffff_8100_1401));
    }
}
