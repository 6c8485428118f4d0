// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of fields in either version, and of the place of a field for messages.

use std::collections::HashSet;

use crate::metadata::names::{identifier, identifier_characters};
use crate::read::plan::references::{Root, Way};
use crate::read::plan::scope_name;
use crate::read::plan::ways::bare;
use crate::read::roles;
use crate::read::schema::{Role, Schema, Scope, Structure, Type};

/// Names that the fields of a structure of CTF 1.8 have in CTF 2: without the underscore, unless that makes two the same.
pub(super) fn for_ctf2(structure: &Structure) -> Vec<String> {
    let names = structure.fields.iter().map(|(name, _)| name);
    let shared = |name: &str| names.clone().filter(|other| bare(other) == bare(name)).count() > 1;
    names
        .clone()
        .map(|name| {
            if shared(name) {
                name.clone()
            } else {
                bare(name).to_owned()
            }
        })
        .collect()
}

/// Names that the fields of a structure of CTF 2 have in CTF 1.8: that of the task, or an identifier. `is_whole_scope`: no structure is around.
pub(super) fn for_ctf1(structure: &Structure, scope: Scope, is_whole_scope: bool) -> Vec<String> {
    let tasks: Vec<Option<&str>> = structure.fields.iter().map(|(_, field)| task_name(field)).collect();
    let mut taken: HashSet<String> = tasks.iter().flatten().map(|&name| name.to_owned()).collect();
    let is_of_format = matches!(scope, Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader);
    let mut names: Vec<String> = vec![];
    for (index, (name, _)) in structure.fields.iter().enumerate() {
        // Of several fields with a task the last counts.
        if let Some(task) = tasks[index]
            && !tasks[index + 1..].contains(&Some(task))
        {
            names.push(task.to_owned());
            continue;
        }
        let depth = if is_whole_scope { 1 } else { 2 };
        let stem = identifier_characters(name);
        let has_meaning =
            roles::of_field(scope, &stem, depth).is_some() || stem == bare(&stem) && KEYWORDS.contains(&&*stem);
        let is_plain = is_of_format && !has_meaning && stem.starts_with(|c: char| c.is_ascii_alphabetic());
        let stem = if is_plain { stem } else { format!("_{stem}") };
        let mut free = stem.clone();
        for number in 2.. {
            if !taken.contains(&free) && !KEYWORDS.contains(&&*free) {
                break;
            }
            free = format!("{stem}_{number}");
        }
        taken.insert(free.clone());
        names.push(free);
    }
    names
}

/// The name of a variant's option as an identifier.
pub(super) fn option(name: &str) -> String {
    let name = identifier(name);
    if KEYWORDS.contains(&&*name) {
        format!("_{name}")
    } else {
        name
    }
}

/// What CTF 1.8 calls a field with this task.
fn task_name(of_type: &Type) -> Option<&'static str> {
    let tasks = match of_type {
        Type::Blob(blob) => &blob.roles,
        other => &other.integer()?.roles,
    };
    // A packet whose content is all of it says so once.
    match tasks[..] {
        [Role::ContentBits, Role::TotalBits] | [Role::TotalBits, Role::ContentBits] => {
            Some(roles::field_name(Role::TotalBits))
        }
        [role] => Some(roles::field_name(role)),
        _ => None,
    }
}

/// Words of TSDL that no field can have as its name.
pub(super) const KEYWORDS: [&str; 30] = [
    "_Bool",
    "_Complex",
    "_Imaginary",
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "false",
    "true",
];

/// Where a type is, for messages.
pub(super) fn place(schema: &Schema, root: Root, way: &[u32]) -> String {
    let mut place = scope_name(root.scope).to_owned();
    if let Some(event) = root.event {
        place += &format!(" of event {event}");
    }
    if let Some(stream) = root.stream {
        place += &format!(" of stream {stream}");
    }
    let path = path(schema, root, way);
    if path.is_empty() {
        place
    } else {
        format!("{place}, field {}", path.join("."))
    }
}

/// Names on a way, as they are in the schema.
fn path(schema: &Schema, root: Root, way: &[u32]) -> Vec<String> {
    let Some(structure) = structure(schema, root) else {
        return vec![];
    };
    let mut names = vec![];
    follow(structure, way, &mut |structure, _, index| {
        names.push(structure.fields[index].0.clone())
    });
    names
}

/// The structure of a scope.
pub(super) fn structure(schema: &Schema, root: Root) -> Option<&Structure> {
    let stream = || schema.streams.get(&root.stream?);
    let event = || stream()?.events.get(&root.event?);
    let of_type = match root.scope {
        Scope::PacketHeader => schema.packet_header.as_ref(),
        Scope::PacketContext => stream()?.packet_context.as_ref(),
        Scope::EventHeader => stream()?.event_header.as_ref(),
        Scope::EventContext => stream()?.event_context.as_ref(),
        Scope::SpecificContext => event()?.specific_context.as_ref(),
        Scope::Payload => event()?.payload.as_ref(),
    };
    crate::read::plan::references::structure_of(of_type.map(|of_type| &**of_type))
}

/// Every scope.
pub(super) fn roots(schema: &Schema) -> Vec<Root> {
    let root = |scope, stream, event| Root { scope, stream, event };
    let mut roots = vec![root(Scope::PacketHeader, None, None)];
    for (&id, stream) in &schema.streams {
        for scope in [Scope::PacketContext, Scope::EventHeader, Scope::EventContext] {
            roots.push(root(scope, Some(id), None));
        }
        for &event in stream.events.keys() {
            roots.extend([Scope::SpecificContext, Scope::Payload].map(|scope| root(scope, Some(id), Some(event))));
        }
    }
    roots
}

/// The type at the end of a way.
pub(super) fn of_type<'a>(schema: &'a Schema, root: Root, way: &[u32]) -> Option<&'a Type> {
    let (&first, rest) = way.split_first()?;
    let mut current = &*structure(schema, root)?.fields.get(first as usize)?.1;
    for &index in rest {
        current = inner(current, index as usize)?;
    }
    Some(current)
}

fn inner(of_type: &Type, index: usize) -> Option<&Type> {
    Some(match of_type {
        Type::Structure(structure) => &structure.fields.get(index)?.1,
        Type::Array(array) => &array.element,
        Type::Optional(optional) => &optional.content,
        Type::Variant(variant) => &variant.options.get(index)?.of_type,
        Type::Integer(_) | Type::Enumeration(_) | Type::Float(_) | Type::Text(_) | Type::Blob(_) => return None,
    })
}

/// Calls `step` for each field of a structure on the way: the structure, the way to it, and the index of the field.
pub(super) fn follow(structure: &Structure, way: &[u32], step: &mut impl FnMut(&Structure, &[u32], usize)) {
    let Some(&first) = way.first() else { return };
    step(structure, &[], first as usize);
    let mut current = &*structure.fields[first as usize].1;
    for (depth, &index) in way.iter().enumerate().skip(1) {
        if let Type::Structure(structure) = current {
            step(structure, &way[..depth], index as usize);
        }
        match inner(current, index as usize) {
            Some(next) => current = next,
            None => return,
        }
    }
}

/// True when a way leads only through structures.
pub(super) fn is_straight(structure: &Structure, way: &Way) -> bool {
    let mut steps = 0;
    follow(structure, way, &mut |_, _, _| steps += 1);
    steps == way.len()
}
