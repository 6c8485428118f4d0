// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large a plan becomes: it has each type where it stands.

use std::sync::Arc;

use super::PlanError;
use crate::read::extent::{Extents, extent};
use crate::read::schema::{Schema, Type};

/// Types in all scopes together: a hundred times what the largest tracers describe.
const TYPES_MAX: u64 = 4_000_000;

/// # Errors
/// The plan would have too many nodes.
pub(super) fn check(schema: &Schema) -> Result<(), PlanError> {
    let mut known = Extents::new();
    let mut total = 0_u64;
    let mut add = |of_type: &Option<Arc<Type>>| {
        if let Some(of_type) = of_type {
            total = total.saturating_add(extent(of_type, &mut known).types);
        }
    };
    add(&schema.packet_header);
    for stream in schema.streams.values() {
        add(&stream.packet_context);
        add(&stream.event_header);
        add(&stream.event_context);
        for event in stream.events.values() {
            add(&event.specific_context);
            add(&event.payload);
        }
    }
    match total <= TYPES_MAX {
        true => Ok(()),
        false => Err(PlanError {
            place: "all scopes".into(),
            what: format!("they have {total} types, including nested types; at most {TYPES_MAX} are supported"),
        }),
    }
}
