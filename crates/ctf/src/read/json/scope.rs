// SPDX-License-Identifier: MIT OR Apache-2.0
//! A field class in its place. A class may have an alias and stand in several scopes; which tasks its fields may have, and which clock their
//! timestamps are of, is known where it stands.

use std::collections::HashMap;
use std::sync::Arc;

use crate::read::roles;
use crate::read::schema::{
    Array, Blob, Count, Integer, Meaning, Optional, Role, Scope, Structure, Type, Variant, VariantOption, Width,
};

/// What timestamps of a scope are of.
#[derive(Clone, Copy)]
pub(super) enum Clocked {
    /// The scope has none.
    Never,
    /// The default clock of the stream, when it has one.
    By(Option<usize>),
}

/// The same type with its clocks, and only with tasks of this scope.
pub(super) fn place(of_type: &Arc<Type>, scope: Scope, clocked: Clocked, has_uuid: bool) -> Result<Arc<Type>, String> {
    let mut placer = Placer {
        scope,
        clocked,
        has_uuid,
        placed: HashMap::new(),
    };
    if scope == Scope::PacketHeader {
        check_magic(of_type, &mut true, &mut HashMap::new())?;
    }
    placer.place(of_type)
}

struct Placer {
    scope: Scope,
    clocked: Clocked,
    has_uuid: bool,
    /// What became of types that aliases share, by their address.
    placed: HashMap<*const Type, Arc<Type>>,
}

impl Placer {
    fn place(&mut self, of_type: &Arc<Type>) -> Result<Arc<Type>, String> {
        if let Some(placed) = self.placed.get(&Arc::as_ptr(of_type)) {
            return Ok(placed.clone());
        }
        let placed = match &**of_type {
            Type::Integer(integer) => self.integer(integer)?.map(Type::Integer),
            Type::Enumeration(enumeration) => self.integer(&enumeration.integer)?.map(|integer| {
                Type::Enumeration(crate::read::schema::Enumeration {
                    integer,
                    labels: enumeration.labels.clone(),
                })
            }),
            Type::Blob(blob) => {
                self.blob(blob)?;
                None
            }
            Type::Float(_) | Type::Text(_) => None,
            Type::Structure(structure) => {
                let mut fields = Vec::with_capacity(structure.fields.len());
                for (name, field) in &structure.fields {
                    fields.push((name.clone(), self.place(field)?));
                }
                let is_same = |((_, new), (_, old)): (&(_, Arc<Type>), &(_, Arc<Type>))| Arc::ptr_eq(new, old);
                let changed = !fields.iter().zip(&structure.fields).all(is_same);
                changed.then_some(Type::Structure(Structure {
                    alignment: structure.alignment,
                    fields,
                }))
            }
            Type::Array(array) => {
                let element = self.place(&array.element)?;
                let changed = !Arc::ptr_eq(&element, &array.element);
                changed.then(|| {
                    Type::Array(Array {
                        element,
                        ..array.clone()
                    })
                })
            }
            Type::Optional(optional) => {
                let content = self.place(&optional.content)?;
                let changed = !Arc::ptr_eq(&content, &optional.content);
                changed.then(|| {
                    Type::Optional(Optional {
                        content,
                        ..optional.clone()
                    })
                })
            }
            Type::Variant(variant) => self.variant(variant)?,
        };
        let placed = placed.map_or_else(|| of_type.clone(), Arc::new);
        self.placed.insert(Arc::as_ptr(of_type), placed.clone());
        Ok(placed)
    }

    fn variant(&mut self, variant: &Variant) -> Result<Option<Type>, String> {
        let mut changed = false;
        let mut options = Vec::with_capacity(variant.options.len());
        for option in &variant.options {
            let of_type = self.place(&option.of_type)?;
            changed |= !Arc::ptr_eq(&of_type, &option.of_type);
            options.push(VariantOption {
                of_type,
                ..option.clone()
            });
        }
        let selector = variant.selector.clone();
        Ok(changed.then_some(Type::Variant(Variant { selector, options })))
    }

    /// `None` when it stays as it is.
    fn integer(&self, integer: &Integer) -> Result<Option<Integer>, String> {
        if integer.roles.is_empty() {
            return Ok(None);
        }
        let mut placed = integer.clone();
        for &role in &integer.roles {
            self.check(role)?;
            if !matches!(role, Role::BeginTime | Role::EndTime) {
                continue;
            }
            let Clocked::By(Some(clock)) = self.clocked else {
                let name = roles::role_name(role);
                return Err(format!(
                    "a field has the role {name}, but the data-stream-class has no `default-clock-class-id`"
                ));
            };
            placed.clock = Some(clock);
        }
        if self.scope == Scope::EventHeader {
            // The clock says it already.
            placed.roles.retain(|role| *role != Role::BeginTime);
        }
        Ok(Some(placed))
    }

    fn blob(&self, blob: &Blob) -> Result<(), String> {
        for &role in &blob.roles {
            self.check(role)?;
            if blob.count != Count::Fixed(16) {
                return Err("a field with the role metadata-stream-uuid must have 16 bytes".into());
            }
            if !self.has_uuid {
                return Err("a field has the role metadata-stream-uuid, but the preamble has no `uuid`".into());
            }
        }
        Ok(())
    }

    fn check(&self, role: Role) -> Result<(), String> {
        match roles::allowed(role, self.scope) {
            true => Ok(()),
            false => Err(format!(
                "a field has the role {}, which fields of this scope cannot have",
                roles::role_name(role)
            )),
        }
    }
}

/// The magic number is the first field of the header, and of 32 bits. `is_first`: nothing came before.
fn check_magic(of_type: &Arc<Type>, is_first: &mut bool, seen: &mut HashMap<*const Type, ()>) -> Result<(), String> {
    if !*is_first && seen.insert(Arc::as_ptr(of_type), ()).is_some() {
        return Ok(());
    }
    if let Some(integer) = of_type.integer()
        && integer.roles.contains(&Role::Magic)
    {
        if !*is_first {
            return Err("the field with the role packet-magic-number must be the first in the packet header".into());
        }
        if integer.width != Width::Bits(32) || integer.meaning != Meaning::Number {
            return Err("the field with the role packet-magic-number must have 32 bits".into());
        }
    }
    match &**of_type {
        Type::Structure(structure) => {
            for (_, field) in &structure.fields {
                check_magic(field, is_first, seen)?;
                *is_first = false;
            }
            Ok(())
        }
        other => {
            *is_first = false;
            let within: Vec<&Arc<Type>> = match other {
                Type::Array(array) => vec![&array.element],
                Type::Optional(optional) => vec![&optional.content],
                Type::Variant(variant) => variant.options.iter().map(|option| &option.of_type).collect(),
                _ => vec![],
            };
            within
                .into_iter()
                .try_for_each(|inner| check_magic(inner, is_first, seen))
        }
    }
}
