// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a type is when each type in it is counted where it stands. Metadata of a few lines can name types that contain one another twice,
//! sixty times over, or once, a million times: whoever walks over types wants to know before.

use std::collections::HashMap;
use std::sync::Arc;

use super::schema::Type;

/// Of a type, itself counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Types within types.
    pub(crate) depth: u32,
    /// All of them.
    pub(crate) types: u64,
}

/// Extents that are known, by the address of the type.
pub(crate) type Extents = HashMap<*const Type, Extent>;

/// The types in it are alive as long as `known` is used for others.
pub(crate) fn extent(of_type: &Arc<Type>, known: &mut Extents) -> Extent {
    if let Some(extent) = known.get(&Arc::as_ptr(of_type)) {
        return *extent;
    }
    let mut total = Extent { depth: 1, types: 1 };
    let mut add = |inner: &Arc<Type>| {
        let inner = extent(inner, known);
        total.depth = total.depth.max(inner.depth + 1);
        total.types = total.types.saturating_add(inner.types);
    };
    match &**of_type {
        Type::Integer(_) | Type::Enumeration(_) | Type::Float(_) | Type::Text(_) | Type::Blob(_) => {}
        Type::Structure(structure) => structure.fields.iter().for_each(|(_, field)| add(field)),
        Type::Array(array) => add(&array.element),
        Type::Variant(variant) => variant.options.iter().for_each(|option| add(&option.of_type)),
        Type::Optional(optional) => add(&optional.content),
    }
    known.insert(Arc::as_ptr(of_type), total);
    total
}
