// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of functions, and members of what they point to, by their names in the source: as what a probe at the function's first
//! instruction fetches, in the words of tracefs (`+16(%di):s32`). From DWARF; x86-64 only.
//!
//! Where a parameter is at the first instruction, its location says, if it is a register there. Code that was not optimized stores parameters
//! in the frame only later: there they are where the calling convention has them.

use std::path::Path;

use gimli::{AttributeValue, DW_AT_abstract_origin, DW_AT_specification, Operation, UnitOffset, constants as dw};
use object::{Architecture, Object};

use crate::binary::{Cache, DwarfReader, File, dwarf, open};
use crate::debug_file;
use crate::demangle::means;

type Dwarf = gimli::Dwarf<DwarfReader>;
type Unit = gimli::Unit<DwarfReader>;
type Entry = gimli::DebuggingInformationEntry<DwarfReader>;

/// Registers of whole numbers and pointers, in the order of parameters.
const OF_PARAMETERS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];
/// By their numbers in DWARF.
const REGISTERS: [&str; 16] = [
    "%ax", "%dx", "%cx", "%bx", "%si", "%di", "%bp", "%sp", "%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14",
    "%r15",
];
/// Types of types, and members of members: more are damage.
const DEPTH_MAX: u32 = 64;

/// What a probe at the begin of `function` fetches for `expression`: `order->customer.name`.
///
/// # Errors
/// A sentence: the file has no debug information, no such function, parameter or member, or it is nothing that a probe can fetch.
pub fn fetch(path: &Path, function: &str, expression: &str) -> Result<String, String> {
    let names = parse(expression)
        .ok_or_else(|| format!("{expression:?} is not of the form NAME, NAME->MEMBER or NAME.MEMBER"))?;
    let unreadable = || format!("{} is not a program or library", path.display());
    let cache = Cache::new(open(path).map_err(|_| unreadable())?, u64::MAX);
    let file = File::parse(&cache).map_err(|_| unreadable())?;
    if file.architecture() != Architecture::X86_64 {
        return Err("parameters are known by name only on x86-64".to_owned());
    }
    let has_types = |file: &File<'_>| file.section_by_name(".debug_info").is_some();
    let debug = (!has_types(&file))
        .then(|| debug_file::find(&file, path, u64::MAX))
        .flatten();
    let debug = debug.as_ref().and_then(|cache| File::parse(cache).ok());
    let dwarf = dwarf(debug.as_ref().unwrap_or(&file)).ok_or_else(|| {
        format!(
            "{} has no debug information, which has the names of parameters: compile it with -g, or install its debug file",
            path.display()
        )
    })?;
    let damaged = |error: gimli::Error| format!("the debug information of {} is damaged: {error}", path.display());
    let found = find(&dwarf, function).map_err(damaged)?;
    let (unit, offset) = found.ok_or_else(|| {
        format!(
            "the debug information of {} has no code of a function {function}",
            path.display()
        )
    })?;
    let types = Types {
        dwarf: &dwarf,
        unit: &unit,
    };
    types.fetch(offset, function, &names).map_err(damaged)?
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

/// The entry of a function's code.
fn find(dwarf: &Dwarf, function: &str) -> gimli::Result<Option<(Unit, UnitOffset)>> {
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut found = None;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let is_code = entry.tag() == dw::DW_TAG_subprogram && entry.attr(dw::DW_AT_low_pc).is_some();
            let types = Types { dwarf, unit: &unit };
            if is_code && types.is_named(entry, function)? {
                found = Some(entry.offset());
                break;
            }
        }
        if let Some(offset) = found {
            return Ok(Some((unit, offset)));
        }
    }
    Ok(None)
}

/// A parameter.
struct Parameter {
    name: String,
    /// Absent for `void *` and the like.
    kind: Kind,
    register: Option<&'static str>,
}

/// What a type is, without its qualifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number {
        bytes: u64,
        is_signed: bool,
    },
    Float,
    /// To a character.
    Text,
    Pointer(Option<UnitOffset>),
    Structure(UnitOffset),
    /// Of characters.
    TextArray,
    Other,
}

/// What was found so far: a value in a register, or something in memory.
enum Place {
    Register(&'static str),
    /// So many bytes behind an address.
    Memory {
        base: String,
        offset: u64,
    },
}

impl Place {
    /// Its value, as tracefs fetches it.
    fn value(&self) -> String {
        match self {
            Place::Register(register) => (*register).to_owned(),
            Place::Memory { base, offset } => format!("+{offset}({base})"),
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
            (Kind::TextArray, Place::Memory { .. }) => format!("{value}:string"),
            _ => return None,
        })
    }
}

struct Types<'d> {
    dwarf: &'d Dwarf,
    unit: &'d Unit,
}

impl Types<'_> {
    fn fetch(&self, function: UnitOffset, called: &str, names: &[&str]) -> gimli::Result<Result<String, String>> {
        let parameters = self.parameters(function)?;
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
                "it is not known where {called} has its parameter {first} at the begin"
            )));
        };
        let (mut place, mut kind, mut path) = (Place::Register(register), parameter.kind, (*first).to_owned());
        for name in members {
            let (structure, base, from) = match (kind, &place) {
                (Kind::Pointer(Some(target)), _) => match self.kind(Some(target), 0)? {
                    Kind::Structure(structure) => (structure, place.value(), 0),
                    _ => return Ok(Err(format!("{path} does not point to a structure"))),
                },
                (Kind::Structure(structure), Place::Memory { base, offset }) => (structure, base.clone(), *offset),
                _ => {
                    return Ok(Err(format!(
                        "{path} is no structure in memory, and has no member {name}"
                    )));
                }
            };
            let (offset, member) = match self.member(structure, name, 0)? {
                Some(found) => found,
                None => {
                    let known = self.members(structure)?.join(", ");
                    return Ok(Err(format!(
                        "{path} has no member {name} that can be fetched; it has {known}"
                    )));
                }
            };
            place = Place::Memory {
                base,
                offset: from + offset,
            };
            kind = self.kind(member, 0)?;
            path = format!("{path}->{name}");
        }
        let fetched = place.fetch(kind);
        let why = match kind {
            Kind::Structure(structure) => format!(
                "is a structure; choose one of its members: {}",
                self.members(structure)?.join(", ")
            ),
            _ => "is of a type that a probe cannot fetch".to_owned(),
        };
        Ok(fetched.ok_or_else(|| format!("{path} {why}")))
    }

    /// In their order, each with where it is at the function's first instruction.
    fn parameters(&self, function: UnitOffset) -> gimli::Result<Vec<Parameter>> {
        let mut tree = self.unit.entries_tree(Some(function))?;
        let root = tree.root()?;
        let returned = self.attribute(root.entry(), dw::DW_AT_type)?.and_then(reference);
        let begin = match root.entry().attr_value(dw::DW_AT_low_pc) {
            Some(value) => self.dwarf.attr_address(self.unit, value)?,
            None => None,
        };
        // The address of a structure that is returned may be the first parameter.
        let mut free = match returned.map(|returned| self.kind(Some(returned), 0)).transpose()? {
            Some(Kind::Structure(_) | Kind::Other | Kind::TextArray) => None,
            _ => Some(OF_PARAMETERS.iter()),
        };
        let mut parameters = Vec::new();
        let mut children = root.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            if entry.tag() != dw::DW_TAG_formal_parameter {
                continue;
            }
            let kind = self.kind(self.attribute(entry, dw::DW_AT_type)?.and_then(reference), 0)?;
            let by_convention = match kind {
                Kind::Number { .. } | Kind::Text | Kind::Pointer(_) => free.as_mut().and_then(Iterator::next).copied(),
                Kind::Float => None,
                // Some are in registers, and some are not.
                Kind::Structure(_) | Kind::TextArray | Kind::Other => {
                    free = None;
                    None
                }
            };
            parameters.push(Parameter {
                name: self.name(entry)?.unwrap_or_default(),
                kind,
                register: self.register(entry, begin, by_convention)?,
            });
        }
        Ok(parameters)
    }

    /// The register that a parameter is in at the begin of the function.
    fn register(
        &self,
        parameter: &Entry,
        begin: Option<u64>,
        by_convention: Option<&'static str>,
    ) -> gimli::Result<Option<&'static str>> {
        let Some(location) = parameter.attr_value(dw::DW_AT_location) else {
            return Ok(None);
        };
        let mut expression = None;
        if let AttributeValue::Exprloc(only) = location {
            expression = Some(only);
        } else if let Some(mut locations) = self.dwarf.attr_locations(self.unit, location)? {
            while let Some(part) = locations.next()? {
                if begin.is_some_and(|begin| (part.range.begin..part.range.end).contains(&begin)) {
                    expression = Some(part.data);
                    break;
                }
            }
        }
        let Some(expression) = expression else { return Ok(None) };
        let mut operations = expression.operations(self.unit.encoding());
        let first = operations.next()?;
        let is_all = operations.next()?.is_none();
        Ok(match first {
            Some(Operation::Register { register }) if is_all => REGISTERS.get(usize::from(register.0)).copied(),
            Some(Operation::FrameOffset { .. }) if is_all => by_convention,
            _ => None,
        })
    }

    /// What a type is.
    fn kind(&self, offset: Option<UnitOffset>, depth: u32) -> gimli::Result<Kind> {
        let Some(offset) = offset.filter(|_| depth < DEPTH_MAX) else {
            return Ok(Kind::Other);
        };
        let entry = self.unit.entry(offset)?;
        let inner = entry.attr_value(dw::DW_AT_type).and_then(reference);
        let bytes = entry
            .attr_value(dw::DW_AT_byte_size)
            .and_then(|value| value.udata_value());
        let is_character = |kind: Kind| matches!(kind, Kind::Number { bytes: 1, .. });
        Ok(match entry.tag() {
            dw::DW_TAG_base_type => {
                let encoding = match entry.attr_value(dw::DW_AT_encoding) {
                    Some(AttributeValue::Encoding(encoding)) => encoding,
                    _ => return Ok(Kind::Other),
                };
                match (encoding, bytes) {
                    (dw::DW_ATE_float | dw::DW_ATE_complex_float, _) => Kind::Float,
                    (_, Some(bytes @ (1 | 2 | 4 | 8))) => Kind::Number {
                        bytes,
                        is_signed: matches!(encoding, dw::DW_ATE_signed | dw::DW_ATE_signed_char),
                    },
                    _ => Kind::Other,
                }
            }
            dw::DW_TAG_enumeration_type => match bytes {
                Some(bytes @ (1 | 2 | 4 | 8)) => Kind::Number {
                    bytes,
                    is_signed: false,
                },
                _ => Kind::Other,
            },
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => match inner {
                Some(target) if is_character(self.kind(Some(target), depth + 1)?) => Kind::Text,
                target => Kind::Pointer(target),
            },
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => Kind::Structure(offset),
            dw::DW_TAG_array_type if is_character(self.kind(inner, depth + 1)?) => Kind::TextArray,
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => self.kind(inner, depth + 1)?,
            _ => Kind::Other,
        })
    }

    /// Where a member of a structure is, and its type; also one of a base class or of a structure without a name.
    fn member(
        &self,
        structure: UnitOffset,
        name: &str,
        depth: u32,
    ) -> gimli::Result<Option<(u64, Option<UnitOffset>)>> {
        if depth >= DEPTH_MAX {
            return Ok(None);
        }
        for (offset, known, target) in self.parts(structure)? {
            if known.as_deref() == Some(name) {
                return Ok(Some((offset, target)));
            }
            if known.is_none()
                && let Kind::Structure(inner) = self.kind(target, 0)?
                && let Some((inner_offset, target)) = self.member(inner, name, depth + 1)?
            {
                return Ok(Some((offset + inner_offset, target)));
            }
        }
        Ok(None)
    }

    fn members(&self, structure: UnitOffset) -> gimli::Result<Vec<String>> {
        let names: Vec<String> = self
            .parts(structure)?
            .into_iter()
            .filter_map(|(_, name, _)| name)
            .collect();
        Ok(if names.is_empty() {
            vec!["none that are known here".to_owned()]
        } else {
            names
        })
    }

    /// Offset, name and type of each member and base class. Those of some bits are left out.
    #[expect(clippy::type_complexity, reason = "the names are above")]
    fn parts(&self, structure: UnitOffset) -> gimli::Result<Vec<(u64, Option<String>, Option<UnitOffset>)>> {
        let mut tree = self.unit.entries_tree(Some(structure))?;
        let mut children = tree.root()?.children();
        let mut parts = Vec::new();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_part = matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
            // Static ones are no part of it.
            let is_elsewhere = entry.attr(dw::DW_AT_external).is_some();
            if !is_part || is_elsewhere || entry.attr(dw::DW_AT_bit_size).is_some() {
                continue;
            }
            let offset = match entry.attr_value(dw::DW_AT_data_member_location) {
                Some(value) => value.udata_value(),
                // Of unions.
                None => Some(0),
            };
            let target = entry.attr_value(dw::DW_AT_type).and_then(reference);
            if let Some(offset) = offset {
                parts.push((offset, self.name(entry)?, target));
            }
        }
        Ok(parts)
    }

    /// Whether a function is meant by a name: of the source, or of the linker.
    fn is_named(&self, entry: &Entry, wanted: &str) -> gimli::Result<bool> {
        let linked = self.attribute(entry, dw::DW_AT_linkage_name)?;
        let linked = linked.map(|value| self.text(value)).transpose()?;
        if linked.is_some_and(|linked| {
            linked == wanted || crate::demangle::demangle(&linked).is_some_and(|name| means(wanted, &name))
        }) {
            return Ok(true);
        }
        Ok(self.name(entry)?.is_some_and(|name| name == wanted))
    }

    fn name(&self, entry: &Entry) -> gimli::Result<Option<String>> {
        let name = self.attribute(entry, dw::DW_AT_name)?;
        name.map(|value| self.text(value)).transpose()
    }

    fn text(&self, value: AttributeValue<DwarfReader>) -> gimli::Result<String> {
        let text = self.dwarf.attr_string(self.unit, value)?;
        Ok(gimli::Reader::to_string_lossy(&text)?.into_owned())
    }

    /// Of the entry, or of those that it is made from.
    fn attribute(&self, entry: &Entry, name: dw::DwAt) -> gimli::Result<Option<AttributeValue<DwarfReader>>> {
        if let Some(value) = entry.attr_value(name) {
            return Ok(Some(value));
        }
        let mut origin = origin(entry);
        for _ in 0..DEPTH_MAX {
            let Some(offset) = origin else { break };
            let entry = self.unit.entry(offset)?;
            if let Some(value) = entry.attr_value(name) {
                return Ok(Some(value));
            }
            origin = self::origin(&entry);
        }
        Ok(None)
    }
}

fn origin(entry: &Entry) -> Option<UnitOffset> {
    let origin = entry
        .attr_value(DW_AT_abstract_origin)
        .or_else(|| entry.attr_value(DW_AT_specification));
    origin.and_then(reference)
}

/// An entry of the same unit.
fn reference(value: AttributeValue<DwarfReader>) -> Option<UnitOffset> {
    match value {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}
