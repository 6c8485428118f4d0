// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the records of a program's channel carry between their header and their fields.

use piste_abi::{PISTE_CONTEXT_CPU_ID, PISTE_CONTEXT_VTID};
use piste_ctf::{Base, Element, Field, FieldKind};
use serde::{Deserialize, Serialize};

/// A choice of them: bits of `include/piste/abi/ring.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Contexts(u32);

struct Context {
    name: &'static str,
    bit: u32,
    element: Element,
}

/// In the order of their bytes.
const KNOWN: [Context; 2] = [
    Context {
        name: "vtid",
        bit: PISTE_CONTEXT_VTID,
        element: Element::Int32,
    },
    Context {
        name: "cpu_id",
        bit: PISTE_CONTEXT_CPU_ID,
        element: Element::Uint16,
    },
];

impl Contexts {
    /// All that there are, which a channel has unless others are asked for.
    pub const ALL: Contexts = Contexts(PISTE_CONTEXT_VTID | PISTE_CONTEXT_CPU_ID);

    /// None.
    pub const NONE: Contexts = Contexts(0);

    /// Those with these names.
    ///
    /// # Errors
    /// The first name that is none.
    pub fn of(names: &[String]) -> Result<Contexts, &str> {
        let mut bits = 0;
        for name in names {
            bits |= KNOWN.iter().find(|context| context.name == name).ok_or(&**name)?.bit;
        }
        Ok(Contexts(bits))
    }

    /// As people write them.
    pub fn names(self) -> Vec<&'static str> {
        self.chosen().map(|context| context.name).collect()
    }

    /// As the trace describes them.
    pub fn fields(self) -> Vec<Field> {
        let field = |context: &Context| Field {
            name: context.name.into(),
            kind: FieldKind::Scalar {
                element: context.element,
                base: Base::Decimal,
            },
        };
        self.chosen().map(field).collect()
    }

    /// As programs are told of them.
    pub fn bits(self) -> u32 {
        self.0
    }

    fn chosen(self) -> impl Iterator<Item = &'static Context> {
        KNOWN.iter().filter(move |context| self.0 & context.bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_have_the_order_of_their_bytes_whatever_order_they_are_asked_for_in() {
        let contexts = Contexts::of(&["cpu_id".into(), "vtid".into(), "vtid".into()]).unwrap();
        assert_eq!(contexts, Contexts::ALL);
        assert_eq!(contexts.names(), ["vtid", "cpu_id"]);
        let names: Vec<String> = contexts.fields().into_iter().map(|field| field.name).collect();
        assert_eq!(names, ["vtid", "cpu_id"]);
        assert_eq!(Contexts::of(&[]), Ok(Contexts::NONE));
        assert_eq!(Contexts::of(&["tid".into()]), Err("tid"));
    }
}
