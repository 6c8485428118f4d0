// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tables SQL finds: `events`, `streams`, `findings`, those of the model, `spans`, and one for each name of events. The table of events `shop:order` is
//! `"shop:order"`, and also `shop.order`, as SQL writes a table `order` in a schema `shop`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};

use crate::about_trace::{Findings, streams};
use crate::events::Events;
use crate::layout::Layout;
use crate::model::Model;
use crate::one_pass::OnePass;
use crate::scan::Found;
use crate::spans::{SPANS, Spans};

/// The catalog's name, and that of its first schema, which queries need not name.
pub(crate) const CATALOG: &str = "piste";
pub(crate) const SCHEMA: &str = "trace";

/// Tables that are of no single name of events; events of their names are in `events`.
pub(crate) fn tables<'n>() -> impl Iterator<Item = &'n str> {
    let of_model = piste_analysis::tables::ALL
        .into_iter()
        .map(|table| -> &'n str { table.name });
    ["events", "findings", SPANS, "streams"].into_iter().chain(of_model)
}

/// Traces, as SQL sees them.
pub(crate) struct Catalog {
    schemas: BTreeMap<String, Arc<Schema>>,
}

/// Tables without prefix, or those with one.
struct Schema {
    layout: Arc<Layout>,
    found: Found,
    /// What was found when the traces were opened.
    opened: Arc<piste_trace::Findings>,
    /// Names of events, without the schema's prefix.
    names: HashMap<String, u32>,
    is_first: bool,
    /// Views and tables that the user makes.
    made: Mutex<BTreeMap<String, Arc<dyn TableProvider>>>,
}

impl Catalog {
    pub(crate) fn new(layout: &Arc<Layout>, found: &Found, opened: &Arc<piste_trace::Findings>) -> Catalog {
        let mut names: BTreeMap<String, HashMap<String, u32>> = BTreeMap::new();
        names.entry(SCHEMA.into()).or_default();
        for (number, name) in layout.names.iter().enumerate() {
            let number = number as u32;
            names.entry(SCHEMA.into()).or_default().insert(name.clone(), number);
            if let Some((prefix, rest)) = name.split_once(':') {
                names
                    .entry(prefix.to_owned())
                    .or_default()
                    .entry(rest.to_owned())
                    .or_insert(number);
            }
        }
        let schema = |(schema, names): (String, HashMap<String, u32>)| {
            let is_first = schema == SCHEMA;
            let tables = Schema {
                layout: layout.clone(),
                found: found.clone(),
                opened: opened.clone(),
                names,
                is_first,
                made: Mutex::default(),
            };
            (schema, Arc::new(tables))
        };
        Catalog {
            schemas: names.into_iter().map(schema).collect(),
        }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Catalog")
            .field("schemas", &self.schemas)
            .finish()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Schema")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        self.schemas.keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema: Arc<dyn SchemaProvider> = self.schemas.get(name)?.clone();
        Some(schema)
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    /// Each table is listed once: those with a prefix in its schema.
    fn table_names(&self) -> Vec<String> {
        let is_listed = |name: &&String| !self.is_first || !name.contains(':') && !is_ours(name);
        let mut names: Vec<String> = self.names.keys().filter(is_listed).cloned().collect();
        if self.is_first {
            names.extend(tables().map(str::to_owned));
        }
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        names.extend(made.keys().cloned());
        names.sort();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let made = self
            .made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        let of_model = || self.of_model(name).filter(|_| self.is_first);
        let table: Arc<dyn TableProvider> = match name {
            _ if made.is_some() => return Ok(made),
            "events" if self.is_first => Arc::new(Events::new(&self.layout, None, &self.found)),
            "streams" if self.is_first => Arc::new(streams(&self.layout)?),
            SPANS if self.is_first => Arc::new(OnePass::new(Spans {
                layout: self.layout.clone(),
                found: self.found.clone(),
            })),
            "findings" if self.is_first => Arc::new(Findings::new(&self.layout, &self.opened)),
            _ => match (of_model(), self.names.get(name)) {
                (Some(model), _) => Arc::new(OnePass::new(model)),
                (None, Some(number)) => Arc::new(Events::new(&self.layout, Some(*number), &self.found)),
                (None, None) => return Err(DataFusionError::Plan(self.no_table(name))),
            },
        };
        Ok(Some(table))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self
            .made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.contains_key(name) || self.is_first && is_ours(name) || self.names.contains_key(name)
    }
}

fn is_ours(name: &str) -> bool {
    tables().any(|table| table == name)
}

impl Schema {
    fn of_model(&self, name: &str) -> Option<Model> {
        let known = piste_analysis::tables::ALL.into_iter().find(|table| table.name == name);
        known.map(|table| Model {
            table,
            layout: self.layout.clone(),
            found: self.found.clone(),
        })
    }

    fn no_table(&self, name: &str) -> String {
        let known = self.names.keys().map(String::as_str).chain(tables());
        let near: Vec<String> = piste_patterns::nearest(name, known, 3)
            .into_iter()
            .map(|name| quoted(&name))
            .collect();
        let hint = match near.is_empty() {
            true => "; `SHOW TABLES` lists all".to_owned(),
            false => format!("; did you mean {}?", near.join(", ")),
        };
        format!("there is no table {name:?}{hint}")
    }
}

/// A name as SQL needs it.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
