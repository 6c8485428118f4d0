// SPDX-License-Identifier: MIT OR Apache-2.0
//! `SYMBOL`, `SYMBOL+OFFSET` or `0xOFFSET` of a file -> the offsets at which it is probed.
//!
//! One name can be several functions: a `static` function of two source files, a C++ constructor that the compiler made twice. All of
//! them are meant. Aliases, several names of one function, are one place.

use super::asker::Asker;
use super::boundary::{self, Doubt};
use super::elf::{Elf, Symbol, SymbolKind};
use super::error::ProbeError;
use piste_patterns::nearest;
use piste_symbols::demangle::{demangle, means};

/// The offsets in the file that `place` names, lowest first. With `is_return` only beginnings of functions are accepted: there, and
/// nowhere else, the top of the stack is the return address that the kernel replaces.
pub(super) fn offsets(elf: &Elf, place: &str, is_return: bool, asker: Asker) -> Result<Vec<u64>, ProbeError> {
    let refused = |reason: String| ProbeError::Place {
        place: place.into(),
        reason,
    };
    if is_return {
        asker.must_be_root(
            format!("a probe at the returns of \"{place}\""),
            "the kernel replaces return addresses for it, and programs that inspect theirs fail; probe the beginning of the function",
        )?;
    }
    if let Some(digits) = place.strip_prefix("0x") {
        asker.must_be_root(
            format!("a probe at an offset of the file, \"{place}\""),
            "in the middle of an instruction, it changes what programs do; name a function or a static probe",
        )?;
        let offset =
            u64::from_str_radix(digits, 16).map_err(|_| refused("0x must be followed by hexadecimal digits".into()))?;
        let address = elf.code_address(offset).ok_or_else(|| {
            refused(format!(
                "offset {offset:#x} of {} is not in its code",
                elf.path().display()
            ))
        })?;
        if is_return && let Some(symbol) = around(&elf.symbols(asker), address) {
            return Err(refused(format!(
                "it is inside {}; returns are probed at the beginning of a function",
                symbol.name
            )));
        }
        return Ok(vec![offset]);
    }
    let (name, plus) = split(place);
    if name.is_empty() {
        return Err(refused("write SYMBOL, SYMBOL+OFFSET or 0xOFFSET of the file".into()));
    }
    if is_return && plus != 0 {
        return Err(refused(
            "returns are probed at the beginning of a function; omit the offset".into(),
        ));
    }
    let symbols = elf.symbols(asker);
    let meant = meant(&symbols, name);
    if meant.is_empty() && functions(&symbols).next().is_none() {
        let lacks = match asker {
            Asker::Root => "its debug file is not installed; write 0xOFFSET, an offset in the file",
            Asker::Other => "it has no debug file that only root or its owner can write to",
        };
        let path = elf.path().display();
        return Err(refused(format!(
            "{path} contains no names of functions: it was stripped, and {lacks}"
        )));
    }
    if meant.is_empty() {
        return Err(ProbeError::NoPlace {
            binary: elf.path().into(),
            wanted: format!("function \"{name}\""),
            nearest: similar(&symbols, name),
        });
    }
    if meant.iter().any(|symbol| symbol.kind == SymbolKind::Chooser) {
        return Err(refused(chooser_reason(&symbols, name)));
    }
    if meant.iter().any(|symbol| symbol.kind != SymbolKind::Function) {
        asker.must_be_root(
            format!("a probe at {name}, which the file does not declare as a function,"),
            "it may be data; name a function or a static probe",
        )?;
    }
    let mut addresses: Vec<u64> = meant.iter().map(|symbol| symbol.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut offsets = Vec::with_capacity(addresses.len());
    for address in addresses {
        offsets.push(
            elf.code_offset(address)
                .ok_or_else(|| refused(format!("{name} is not code")))?,
        );
    }
    if plus == 0 {
        if asker == Asker::Other && meant.iter().any(|symbol| !boundary::is_aligned(elf, symbol.address)) {
            return Err(refused("no instruction can begin at this address".into()));
        }
        return Ok(offsets);
    }
    let [offset] = offsets[..] else {
        let list: Vec<String> = offsets.iter().map(|offset| format!("{offset:#x}")).collect();
        let all = list.join(", ");
        return Err(refused(format!(
            "{name} is the name of {} functions, at {all}; write 0xOFFSET to choose one",
            offsets.len()
        )));
    };
    let bytes = meant.iter().map(|symbol| symbol.bytes).max().unwrap_or(0);
    if bytes != 0 && plus >= bytes {
        return Err(refused(format!(
            "{name} has {bytes} bytes; +{plus:#x} is beyond its end"
        )));
    }
    let probed = offset.saturating_add(plus);
    elf.code_address(probed)
        .ok_or_else(|| refused(format!("+{plus:#x} is beyond the end of the code")))?;
    let doubt = match bytes {
        0 => format!("the file does not say how long {name} is, so its instructions are unknown"),
        _ => match boundary::check(elf, offset, plus) {
            Ok(()) => return Ok(vec![probed]),
            Err(Doubt::Architecture) if asker == Asker::Root => return Ok(vec![probed]),
            Err(Doubt::Inside { begin, next }) => {
                format!("it is inside the instruction that begins at +{begin:#x}; the next one begins at +{next:#x}")
            }
            Err(Doubt::Undecodable { at }) => {
                format!(
                    "{name} has an unknown instruction at +{at:#x}, so it is unknown where the following ones begin"
                )
            }
            Err(Doubt::TooFar) => format!("{name} is too long to decode its instructions"),
            Err(Doubt::Architecture) => "instructions can be decoded only in x86 programs".into(),
        },
    };
    Err(refused(match asker {
        Asker::Root => format!("{doubt} (the place \"{probed:#x}\" is probed without this check)"),
        Asker::Other => doubt,
    }))
}

/// `SYMBOL+OFFSET`, the offset in decimal or hexadecimal. A name may itself have a plus (`operator+`).
pub(super) fn split(place: &str) -> (&str, u64) {
    let Some((name, offset)) = place.rsplit_once('+') else {
        return (place, 0);
    };
    let number = match offset.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => offset.parse(),
    };
    number.map_or((place, 0), |number| (name, number))
}

/// The functions that a name means: as the linker knows them, else as their authors wrote them, else what is there of that name and
/// does not say that it is a function.
fn meant<'a>(symbols: &'a [Symbol], name: &str) -> Vec<&'a Symbol> {
    let of_name = |symbol: &&Symbol| symbol.name == name;
    let exact: Vec<_> = functions(symbols).filter(of_name).collect();
    if !exact.is_empty() {
        return exact;
    }
    let demangled: Vec<_> = functions(symbols)
        .filter(|symbol| demangle(&symbol.name).is_some_and(|full| means(name, &full)))
        .collect();
    if !demangled.is_empty() {
        return demangled;
    }
    symbols
        .iter()
        .filter(|symbol| symbol.kind == SymbolKind::Unknown)
        .filter(of_name)
        .collect()
}

fn functions(symbols: &[Symbol]) -> impl Iterator<Item = &Symbol> {
    symbols
        .iter()
        .filter(|symbol| matches!(symbol.kind, SymbolKind::Function | SymbolKind::Chooser))
}

/// The function that an address is inside of, and not at the beginning.
fn around(symbols: &[Symbol], address: u64) -> Option<&Symbol> {
    let begins = functions(symbols).any(|symbol| symbol.address == address);
    let is_inside = |symbol: &&Symbol| address > symbol.address && address - symbol.address < symbol.bytes;
    functions(symbols).find(is_inside).filter(|_| !begins)
}

fn similar(symbols: &[Symbol], name: &str) -> Vec<String> {
    let names: Vec<String> = functions(symbols)
        .map(|symbol| demangle(&symbol.name).unwrap_or_else(|| symbol.name.clone()))
        .collect();
    nearest(name, names.iter().map(String::as_str), 3)
}

/// Why a function that chooses another one is not probed: it runs once, when the program starts. What it chooses from are functions
/// with the same name and an ending (`memcpy`: `__memcpy_avx_unaligned_erms`).
fn chooser_reason(symbols: &[Symbol], name: &str) -> String {
    let mut chosen: Vec<&str> = symbols
        .iter()
        .filter(|symbol| symbol.kind == SymbolKind::Function)
        .map(|symbol| symbol.name.as_str())
        .filter(|other| {
            other
                .trim_start_matches('_')
                .starts_with(&format!("{}_", name.trim_start_matches('_')))
        })
        .collect();
    chosen.dedup();
    chosen.truncate(3);
    let example = match chosen[..] {
        [] => String::new(),
        _ => format!(", such as {}", chosen.join(", ")),
    };
    format!(
        "{name} is an indirect function, which chooses among several functions when the program starts; \
         probe the function that it chooses{example}, or the call in the program"
    )
}
