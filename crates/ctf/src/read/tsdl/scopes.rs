// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of types, where they are known: a block, structure or variant sees its own and those around it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::read::schema::Type;

/// The kinds of names, each a space of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Alias,
    Structure,
    Variant,
    Enumeration,
}

#[derive(Default)]
pub(super) struct Scopes {
    /// The innermost last.
    tables: Vec<HashMap<(Space, String), Arc<Type>>>,
}

impl Scopes {
    /// One with the outermost scope.
    pub(super) fn new() -> Scopes {
        Scopes {
            tables: vec![HashMap::new()],
        }
    }

    pub(super) fn enter(&mut self) {
        self.tables.push(HashMap::new());
    }

    pub(super) fn leave(&mut self) {
        self.tables.pop();
    }

    /// Back to the outermost.
    pub(super) fn leave_all(&mut self) {
        self.tables.truncate(1);
    }

    /// False when the innermost scope has the name already.
    pub(super) fn define(&mut self, space: Space, name: &str, of_type: Arc<Type>) -> bool {
        let innermost = self.tables.last_mut().expect("the outermost is never left");
        innermost.insert((space, name.to_owned()), of_type).is_none()
    }

    pub(super) fn find(&self, space: Space, name: &str) -> Option<Arc<Type>> {
        let key = (space, name.to_owned());
        self.tables.iter().rev().find_map(|table| table.get(&key).cloned())
    }
}
