// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of fields in words: `int32`, `string`, `uint8[16]`, `enum uint8 {tea = 1, hot = 1..2}`, `struct {x: int32, y: double}`.

use std::fmt::{self, Write};

use piste_ctf::read::plan::{IntegerNode, Length, Node, Structure};
use piste_ctf::read::schema::{Base, Meaning, Width};

/// Longer names are cut: metadata of a few lines can name types that have no end.
const BYTES_MAX: usize = 4096;

/// The name of a type.
pub fn type_name(node: &Node) -> String {
    let mut name = Name(String::new());
    if write(&mut name, node).is_err() {
        name.0.push_str("...");
    }
    name.0
}

/// Ends with an error when it is full.
struct Name(String);

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        match self.0.len() < BYTES_MAX {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

fn write(name: &mut Name, node: &Node) -> fmt::Result {
    match node {
        Node::Integer(integer) => write_integer(name, integer),
        Node::Float { bits, .. } => match bits {
            32 => name.write_str("float"),
            64 => name.write_str("double"),
            bits => write!(name, "float{bits}"),
        },
        Node::Text { length, .. } => match length {
            Length::Terminated | Length::Slot(_) => name.write_str("string"),
            Length::Fixed(bytes) => write!(name, "char[{bytes}]"),
        },
        Node::Structure(structure) => write_structure(name, structure),
        Node::Array { count, element, .. } => {
            write(name, element)?;
            write_count(name, *count)
        }
        Node::Variant { options, .. } => {
            name.write_str("variant {")?;
            for (index, option) in options.iter().enumerate() {
                separate(name, index)?;
                write!(name, "{}: ", option.name)?;
                write(name, &option.node)?;
            }
            name.write_str("}")
        }
        Node::Optional { content, .. } => {
            name.write_str("optional ")?;
            write(name, content)
        }
        Node::Blob { count, .. } => {
            name.write_str("blob")?;
            write_count(name, *count)
        }
    }
}

fn write_integer(name: &mut Name, integer: &IntegerNode) -> fmt::Result {
    let sign = if integer.is_signed { "" } else { "u" };
    if integer.is_enumeration {
        name.write_str("enum ")?;
    }
    match (integer.meaning, integer.width) {
        (Meaning::Boolean, Width::Bits(bits)) => write!(name, "bool{bits}")?,
        (Meaning::Bits, Width::Bits(bits)) => write!(name, "bits{bits}")?,
        (_, Width::Bits(bits)) => write!(name, "{sign}int{bits}")?,
        (_, Width::Variable) => write!(name, "{sign}int")?,
    }
    match integer.base {
        Base::Decimal => {}
        Base::Hexadecimal => name.write_str(" hex")?,
        Base::Octal => name.write_str(" octal")?,
        Base::Binary => name.write_str(" binary")?,
    }
    if integer.is_enumeration {
        name.write_str(" {")?;
        let mut index = 0;
        for label in &*integer.labels {
            for (first, last) in &label.ranges {
                separate(name, index)?;
                index += 1;
                match first == last {
                    true => write!(name, "{} = {first}", label.name)?,
                    false => write!(name, "{} = {first}..{last}", label.name)?,
                }
            }
        }
        name.write_str("}")?;
    }
    Ok(())
}

fn write_structure(name: &mut Name, structure: &Structure) -> fmt::Result {
    name.write_str("struct {")?;
    for (index, (field, node)) in structure.fields().iter().enumerate() {
        separate(name, index)?;
        write!(name, "{field}: ")?;
        write(name, node)?;
    }
    name.write_str("}")
}

fn write_count(name: &mut Name, count: Length) -> fmt::Result {
    match count {
        Length::Fixed(count) => write!(name, "[{count}]"),
        Length::Slot(_) | Length::Terminated => name.write_str("[]"),
    }
}

fn separate(name: &mut Name, index: usize) -> fmt::Result {
    name.write_str(if index == 0 { "" } else { ", " })
}
