// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of functions, and members of what they point to, by their names in the source: as what a probe at the function's first
//! instruction fetches, in the words of tracefs (`+16(%di):s32`). From DWARF; x86-64 only.
//!
//! - here: which functions a name means, and what all of them have in the same place
//! - [`registers`]: where a function's parameters are when it begins
//! - [`types`]: types, and the members of structures

mod registers;
mod types;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gimli::{UnitOffset, constants as dw};
use object::{Architecture, Object};

use self::types::{Kind, Types};
use crate::binary::{Cache, DwarfReader, File, dwarf};
use crate::debug_file;
use crate::demangle::{demangle, means};
use crate::functions::collect;

type Dwarf = gimli::Dwarf<DwarfReader>;
type Unit = gimli::Unit<DwarfReader>;

/// What a probe at the beginning of `function` fetches for `expression`: `order->customer.name`. The file lies at `path`.
///
/// # Errors
/// A part of a sentence: the file has no debug information, no such function, parameter or member, or it is nothing that a probe can fetch.
pub fn fetch(file: fs::File, path: &Path, function: &str, expression: &str) -> Result<String, String> {
    let path_told = path.display();
    let names = parse(expression).ok_or("write it as NAME, NAME->MEMBER or NAME.MEMBER")?;
    let cache = Cache::new(file, u64::MAX);
    let file = File::parse(&cache).map_err(|_| format!("{path_told} is not an ELF program or library"))?;
    if file.architecture() != Architecture::X86_64 {
        return Err(format!(
            "{path_told} is not an x86-64 file, and parameters can be named only there; name a register instead: NAME=%REGISTER:TYPE"
        ));
    }
    let has_types = |file: &File<'_>| file.section_by_name(".debug_info").is_some();
    let debug = (!has_types(&file))
        .then(|| debug_file::find(&file, path, u64::MAX))
        .flatten();
    let debug = debug.as_ref().and_then(|cache| File::parse(cache).ok());
    let dwarf = dwarf(debug.as_ref().unwrap_or(&file)).ok_or_else(|| {
        format!(
            "{path_told} has no debug information with the names of parameters; compile it with -g, install its debug package, \
             or name a register: NAME=%di:s32"
        )
    })?;
    let addresses = addresses(&file, debug.as_ref(), function);
    if addresses.is_empty() {
        return Err(format!(
            "{path_told} has no function {function}; list its functions with `piste list --symbols {path_told}`"
        ));
    }
    let found = look(&dwarf, &addresses, function, &names);
    let found = found.map_err(|error| format!("the debug information of {path_told} is damaged ({error})"))?;
    agree(found, addresses.len()).map_err(|disagreement| {
        let count = addresses.len();
        match disagreement {
            Disagreement::Refused(why) => why,
            Disagreement::Undescribed => format!(
                "the debug information of {path_told} does not describe {function}; compile the source file that defines it with -g, \
                 or name a register: NAME=%di:s32"
            ),
            Disagreement::SomeUndescribed { described } => format!(
                "{path_told} has {count} functions named {function}, which are all probed, and debug information of only {described}; \
                 name a register: NAME=%di:s32"
            ),
            Disagreement::Different(places) => format!(
                "{path_told} has {count} functions named {function}, and {expression} is not in the same place in all of them ({}); \
                 probe one of them by its offset in the file, 0xOFFSET, and write what to fetch: NAME={}",
                places.join(", "),
                places[0]
            ),
        }
    })
}

/// The names of an expression: of a parameter, and of members.
fn parse(expression: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = expression.split("->").flat_map(|part| part.split('.')).collect();
    let is_name = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    names.iter().all(is_name).then_some(names)
}

/// Where the functions of a name begin, all of which are probed: the name is the linker's, or else the one of the source. There may be several:
/// `static` functions of several source files.
fn addresses(file: &File<'_>, debug: Option<&File<'_>>, name: &str) -> BTreeSet<u64> {
    let mut functions = Vec::new();
    for file in [Some(file), debug].into_iter().flatten() {
        collect(file, &mut functions);
    }
    let begins = |is_meant: &dyn Fn(&str) -> bool| -> BTreeSet<u64> {
        let meant = functions.iter().filter(|function| is_meant(&function.name));
        meant.map(|function| function.address).collect()
    };
    let exact = begins(&|known| known == name);
    match exact.is_empty() {
        true => begins(&|known| demangle(known).is_some_and(|known| means(name, &known))),
        false => exact,
    }
}

/// A function that the debug information describes.
struct Found {
    address: u64,
    /// What a probe at its beginning fetches, or why it cannot.
    fetched: Result<String, String>,
}

/// Looks for the functions that begin at these addresses.
fn look(dwarf: &Dwarf, addresses: &BTreeSet<u64>, called: &str, names: &[&str]) -> gimli::Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let types = Types { dwarf, unit: &unit };
        if !types.may_have(addresses)? {
            continue;
        }
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() != dw::DW_TAG_subprogram {
                continue;
            }
            let mut ranges = dwarf.die_ranges(&unit, entry)?;
            while let Some(range) = ranges.next()? {
                let address = range.begin;
                if addresses.contains(&address) {
                    let fetched = types.fetch(entry.offset(), address, called, names)?;
                    found.push(Found { address, fetched });
                }
            }
        }
    }
    Ok(found)
}

/// Why some functions have nothing in common that a probe could fetch.
enum Disagreement {
    /// None of them has it.
    Refused(String),
    Undescribed,
    SomeUndescribed {
        described: usize,
    },
    /// What it would be for the ones and the others.
    Different(Vec<String>),
}

/// What a probe fetches at the beginning of so many functions.
fn agree(found: Vec<Found>, count: usize) -> Result<String, Disagreement> {
    let described = BTreeSet::from_iter(found.iter().map(|found| found.address)).len();
    let (mut places, mut refused) = (BTreeSet::new(), Vec::new());
    for found in found {
        match found.fetched {
            Ok(place) => {
                places.insert(place);
            }
            Err(why) => refused.push(why),
        }
    }
    let places = Vec::from_iter(places);
    match (&places[..], refused.into_iter().next()) {
        _ if described == 0 => Err(Disagreement::Undescribed),
        _ if described < count => Err(Disagreement::SomeUndescribed { described }),
        ([], Some(why)) => Err(Disagreement::Refused(why)),
        ([place], None) => Ok(place.clone()),
        _ => Err(Disagreement::Different(places)),
    }
}

/// What was found so far: a value in a register, or something in memory.
enum Location {
    Register(&'static str),
    /// So many bytes behind an address.
    Memory {
        base: String,
        offset: u64,
    },
}

impl Location {
    /// Its value, as tracefs fetches it.
    fn value(&self) -> String {
        match self {
            Location::Register(register) => (*register).to_owned(),
            Location::Memory { base, offset } => format!("+{offset}({base})"),
        }
    }

    /// What it has as it is.
    fn fetch(&self, kind: Kind) -> Option<String> {
        let value = self.value();
        Some(match (kind, self) {
            (Kind::Number { bytes, is_signed }, _) => {
                let sign = if is_signed { 's' } else { 'u' };
                format!("{value}:{sign}{}", bytes * 8)
            }
            (Kind::Text, _) => format!("+0({value}):string"),
            (Kind::Pointer(_), _) => format!("{value}:x64"),
            (Kind::TextArray, Location::Memory { .. }) => format!("{value}:string"),
            _ => return None,
        })
    }
}

impl Types<'_> {
    /// Whether functions that begin at these addresses may be in the unit.
    fn may_have(&self, addresses: &BTreeSet<u64>) -> gimli::Result<bool> {
        let mut ranges = self.dwarf.unit_ranges(self.unit)?;
        let mut is_said = false;
        while let Some(range) = ranges.next()? {
            is_said = true;
            if addresses
                .iter()
                .any(|address| (range.begin..range.end).contains(address))
            {
                return Ok(true);
            }
        }
        Ok(!is_said)
    }

    /// What a probe at the first instruction of a function fetches, or why it cannot.
    fn fetch(
        &self,
        function: UnitOffset,
        address: u64,
        called: &str,
        names: &[&str],
    ) -> gimli::Result<Result<String, String>> {
        let parameters = self.parameters(function, address)?;
        let (first, members) = names.split_first().expect("an expression has a name");
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == *first) else {
            let known: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            return Ok(Err(format!("{called} has no parameter {first}; {known}")));
        };
        let Some(register) = parameter.register else {
            return Ok(Err(format!(
                "{called} does not have its parameter {first} in a general register when it begins, and a probe can fetch it from nowhere else \
                 (floating-point numbers, structures and what comes after them, and parameters after the sixth are elsewhere)"
            )));
        };
        let (mut location, mut kind, mut path) = (Location::Register(register), parameter.kind, (*first).to_owned());
        for name in members {
            let (structure, base, from) = match self.structure(&location, kind)? {
                Ok(structure) => structure,
                Err(why) => return Ok(Err(format!("{path} {why}"))),
            };
            let Some(member) = self.member(structure, name)? else {
                let known = self.members(structure)?;
                return Ok(Err(format!(
                    "{path} has no member {name} that a probe can fetch; its members: {known}"
                )));
            };
            let Some(offset) = from.checked_add(member.offset) else {
                return Ok(Err(format!(
                    "the debug information is damaged: {path} would have {name} beyond the end of memory"
                )));
            };
            location = Location::Memory { base, offset };
            kind = self.kind_of(&member)?;
            path = format!("{path}->{name}");
        }
        let why = match kind {
            Kind::Structure(structure) => {
                format!("is a structure; name one of its members: {}", self.members(structure)?)
            }
            Kind::Float => "is a floating-point number, which a probe cannot fetch".to_owned(),
            _ => "has a type that a probe cannot fetch".to_owned(),
        };
        Ok(location.fetch(kind).ok_or_else(|| format!("{path} {why}")))
    }

    /// The structure that something is or points to, the address that it is at, and its distance from there; or why there is none.
    fn structure(&self, location: &Location, kind: Kind) -> gimli::Result<Result<(UnitOffset, String, u64), String>> {
        let value = location.value();
        let why = match (kind, location) {
            (Kind::Pointer(Some(target)), _) => match self.kind(Some(target))? {
                Kind::Structure(structure) => return Ok(Ok((structure, value, 0))),
                _ => "does not point to a structure, so it has no members".to_owned(),
            },
            (Kind::Structure(structure), Location::Memory { base, offset }) => {
                return Ok(Ok((structure, base.clone(), *offset)));
            }
            (Kind::Structure(_), Location::Register(_)) => {
                format!(
                    "is a structure in a register, from which a probe cannot fetch a member; fetch all of it: NAME={value}:x64"
                )
            }
            (Kind::Pointer(None), _) => format!(
                "points to something of unknown type (void *), so its members are unknown; write where the member is: NAME=+OFFSET({value}):TYPE"
            ),
            (Kind::Number { .. } | Kind::Float, _) => "is a number and has no members".to_owned(),
            (Kind::Text | Kind::TextArray, _) => "is a text and has no members".to_owned(),
            (Kind::Other, _) => "is not a structure or a pointer to one, so it has no members".to_owned(),
        };
        Ok(Err(why))
    }
}
