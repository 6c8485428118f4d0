// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the parameters of a function are when it begins.
//!
//! The location of a parameter says so if it is a register at the first instruction. Code that was not optimized stores parameters in the frame
//! only later; before that, they are where the calling convention puts them.

use gimli::{AttributeValue, Operation, UnitOffset, constants as dw};

use super::types::{Entry, Kind, Types, reference};

/// Registers of whole numbers and pointers, in the order of parameters.
const OF_PARAMETERS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];
/// By their numbers in DWARF.
const REGISTERS: [&str; 16] = [
    "%ax", "%dx", "%cx", "%bx", "%si", "%di", "%bp", "%sp", "%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14",
    "%r15",
];

/// A parameter.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// `None` when it is elsewhere, or nobody knows where.
    pub(super) register: Option<&'static str>,
}

impl Types<'_> {
    /// The parameters of a function, in their order, with where they are at its first instruction, which is at `address`.
    pub(super) fn parameters(&self, function: UnitOffset, address: u64) -> gimli::Result<Vec<Parameter>> {
        let mut tree = self.unit.entries_tree(Some(function))?;
        let root = tree.root()?;
        let returned = self.attribute(root.entry(), dw::DW_AT_type)?.and_then(reference);
        // The address of a structure that is returned may be the first parameter.
        let mut free = match returned.map(|returned| self.kind(Some(returned))).transpose()? {
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
            let kind = self.kind(self.attribute(entry, dw::DW_AT_type)?.and_then(reference))?;
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
                register: self.register(entry, address, by_convention)?,
            });
        }
        Ok(parameters)
    }

    /// The register that a parameter is in at the first instruction.
    fn register(
        &self,
        parameter: &Entry,
        address: u64,
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
                if (part.range.begin..part.range.end).contains(&address) {
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
}
