// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in the kernel: whether it has probes at all, and the function that a place names, or that an address is in.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::error::ProbeError;
use super::place::split;
use piste_patterns::nearest;
use piste_symbols::kernel::KernelSymbols;

const SYMBOLS: &str = "/proc/kallsyms";
/// Functions that the kernel does not let anybody probe, `0xBEGIN-0xEND NAME`, where debugfs is mounted.
const PROTECTED: &str = "/sys/kernel/debug/kprobes/blacklist";

/// The place as the kernel is given it.
///
/// # Errors
/// It is no `SYMBOL`, `SYMBOL+OFFSET`, `0xADDRESS` or `0xADDRESS+OFFSET` of the running kernel.
pub(super) fn checked(place: &str, is_return: bool) -> Result<String, ProbeError> {
    if !Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        return Err(ProbeError::Unsupported {
            kind: "kprobes",
            option: "CONFIG_KPROBE_EVENTS",
        });
    }
    if !is_address(place) {
        check_symbol(place, is_return)?;
        return Ok(place.to_owned());
    }
    let symbols = KernelSymbols::read().unwrap_or_default();
    let protected = fs::read_to_string(PROTECTED).unwrap_or_default();
    let address = check_address(place, is_return, &symbols, &protected).map_err(|reason| refused(place, reason))?;
    Ok(format!("{address:#x}"))
}

/// Whether a place is given by its address, which is valid until the kernel starts again.
pub(super) fn is_address(place: &str) -> bool {
    place.starts_with("0x")
}

fn refused(place: &str, reason: impl Into<String>) -> ProbeError {
    ProbeError::Place {
        place: place.into(),
        reason: reason.into(),
    }
}

/// The address of a place, as far as these lists tell that it can be one: that of symbols is empty where the kernel hides its addresses.
fn check_address(place: &str, is_return: bool, symbols: &KernelSymbols, protected: &str) -> Result<u64, String> {
    let (base, plus) = split(place);
    let base = base.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    let Some(address) = base.and_then(Result::ok).and_then(|base| base.checked_add(plus)) else {
        return Err("write 0xADDRESS or 0xADDRESS+OFFSET, with at most 16 hexadecimal digits".into());
    };
    if symbols.is_empty() {
        return Ok(address);
    }
    if symbols.function(address).is_none() {
        return Err(
            "it is not in the code of the kernel or of a module; addresses change at each start of the kernel (see /proc/kallsyms)".into(),
        );
    }
    let offset = symbols.symbol(address).map_or(0, |(_, offset)| offset);
    if is_return && offset != 0 {
        return Err("returns are probed at the beginning of a function".into());
    }
    if let Some(name) = protected.lines().find_map(|line| protects(line, address)) {
        return Err(format!("it is in {name}, which the kernel does not allow to be probed"));
    }
    Ok(address)
}

/// The name in a line of protected functions, if that function has the address.
fn protects(line: &str, address: u64) -> Option<&str> {
    let (range, name) = line.split_once(char::is_whitespace)?;
    let (begin, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    (number(begin)?..number(end)?).contains(&address).then_some(name.trim())
}

fn check_symbol(place: &str, is_return: bool) -> Result<(), ProbeError> {
    let (name, plus) = split(place);
    if name.is_empty() || name.contains(|character: char| !character.is_ascii_graphic() || character == '#') {
        return Err(refused(place, "write SYMBOL or SYMBOL+OFFSET"));
    }
    if is_return && plus != 0 {
        return Err(refused(
            place,
            "returns are probed at the beginning of a function; omit the offset",
        ));
    }
    // A symbol of a module may have its name before it, MODULE:SYMBOL.
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    let names = names();
    if names.is_empty() || names.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(ProbeError::NoPlace {
        binary: "the kernel".into(),
        wanted: format!("function \"{name}\""),
        nearest: nearest(name, names.iter().map(String::as_str), 3),
    })
}

/// The kernel's functions; none when it does not tell.
fn names() -> Vec<String> {
    let Ok(file) = fs::File::open(SYMBOLS) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace();
        if let (Some(_), Some("t" | "T"), Some(name)) = (words.next(), words.next(), words.next()) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
ffffffff81000000 T _stext
ffffffff81000100 T schedule
ffffffff81000200 T do_int3
ffffffff81000300 T _etext
ffffffff81200000 D jiffies
";
    const PROTECTED: &str = "0xffffffff81000200-0xffffffff81000300\tdo_int3\n";

    fn check(place: &str, is_return: bool) -> Result<u64, String> {
        check_address(place, is_return, &KernelSymbols::of_list(LIST), PROTECTED)
    }

    #[test]
    fn an_address_in_the_kernels_code_is_a_place() {
        assert_eq!(check("0xffffffff81000100", false), Ok(0xffff_ffff_8100_0100));
        assert_eq!(check("0xffffffff81000100+0x10", false), Ok(0xffff_ffff_8100_0110));
        assert_eq!(check("0xffffffff81000100+16", false), Ok(0xffff_ffff_8100_0110));
        assert_eq!(check("0xffffffff81000100", true), Ok(0xffff_ffff_8100_0100));
    }

    #[test]
    fn other_addresses_are_refused_with_the_reason() {
        for (place, is_return, said) in [
            ("0x", false, "write 0xADDRESS"),
            ("0xffffffff810001zz", false, "write 0xADDRESS"),
            ("0xffffffffffffffff+1", false, "write 0xADDRESS"),
            ("0xffffffff81200000", false, "not in the code"),
            ("0x1000", false, "not in the code"),
            (
                "0xffffffff81000204",
                false,
                "in do_int3, which the kernel does not allow",
            ),
            ("0xffffffff81000104", true, "the beginning of a function"),
        ] {
            let reason = check(place, is_return).expect_err(place);
            assert!(reason.contains(said), "{place}: {reason}");
        }
    }

    #[test]
    fn where_addresses_are_hidden_the_kernel_decides() {
        let hidden = KernelSymbols::of_list("0000000000000000 T schedule\n");
        assert_eq!(check_address("0x1000", false, &hidden, ""), Ok(0x1000));
    }
}
