// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the filters of a session: fields that no event has. A name that is misspelt would otherwise look like a condition that is
//! never fulfilled.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::Rule;
use crate::description::EventDescription;

/// Fields of filters that are remembered, and for each filter names of fields that events do have. A filter counts, too.
const FIELD_COUNT_MAX: usize = 256;

/// What is remembered of the filters of a session, by their texts.
#[derive(Debug, Default)]
pub struct FilterNotes {
    filters: BTreeMap<String, OfFilter>,
}

/// What is remembered of a filter.
#[derive(Debug)]
struct OfFilter {
    /// Of a rule that has it.
    pattern: String,
    /// The fields that no event has so far.
    missing: Vec<String>,
    /// Fields that events do have.
    others: BTreeSet<String>,
}

impl FilterNotes {
    /// Remembers which fields of the filter an event has that the rule matches.
    pub fn add(&mut self, rule: &Rule, event: &EventDescription) {
        let Some(filter) = &rule.filter else { return };
        if !self.filters.contains_key(filter.text()) {
            let remembered = self.filters.values().map(|of_filter| 1 + of_filter.missing.len());
            if remembered.sum::<usize>() + filter.fields().len() >= FIELD_COUNT_MAX {
                return;
            }
            let new = OfFilter {
                pattern: rule.pattern.clone(),
                missing: filter.fields().to_vec(),
                others: BTreeSet::new(),
            };
            self.filters.insert(filter.text().to_owned(), new);
        }
        if let Some(of_filter) = self.filters.get_mut(filter.text())
            && !of_filter.missing.is_empty()
        {
            let known = event.filtered_fields();
            let is_known = |field: &String| known.iter().any(|known| known.name == *field);
            of_filter.missing.retain(|field| !is_known(field));
            let room = FIELD_COUNT_MAX.saturating_sub(of_filter.others.len());
            let others = known.iter().map(|field| field.name.clone());
            of_filter.others.extend(others.take(room));
        }
    }

    /// A sentence for each field that no event had.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        self.filters.iter().flat_map(|(text, of_filter)| {
            of_filter.missing.iter().map(move |field| {
                let near = super::refusal::nearest(field, of_filter.others.iter().map(String::as_str));
                let hint = match near.first() {
                    Some(near) => format!("; did you mean {near}?"),
                    None => String::new(),
                };
                format!(
                    "no event that {} matches has the field {field} of the filter `{text}`{hint}",
                    of_filter.pattern
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use piste_ctf::{Base, Element, Field, FieldKind};

    use super::*;
    use crate::program_filter::RuleFilter;
    use crate::session::rules::Levels;

    fn event(fields: &[&str]) -> EventDescription {
        let field = |name: &&str| Field {
            name: (*name).into(),
            kind: FieldKind::Scalar {
                element: Element::Int32,
                base: Base::Decimal,
            },
        };
        EventDescription {
            index: 0,
            name: "shop:order".into(),
            level: 13,
            fields: fields.iter().map(field).collect(),
            nowrite: Vec::new(),
        }
    }

    fn rule(filter: &str) -> Rule {
        Rule {
            pattern: "shop:*".into(),
            excluded: Vec::new(),
            levels: Levels::ALL,
            filter: Some(RuleFilter::parse(filter).unwrap()),
            enabled: true,
        }
    }

    #[test]
    fn a_field_that_no_event_has_is_told_with_the_one_that_was_meant() {
        let mut notes = FilterNotes::default();
        notes.add(&rule("latency > 5 && id == 3"), &event(&["latency_ns", "id"]));
        let expected = "no event that shop:* matches has the field latency of the filter `latency > 5 && id == 3`; did you mean \
                        latency_ns?";
        assert_eq!(notes.findings().collect::<Vec<_>>(), [expected]);
        notes.add(&rule("latency > 5 && id == 3"), &event(&["latency"]));
        assert_eq!(notes.findings().count(), 0);
        // In whatever order they come.
        notes.add(&rule("price > 5"), &event(&["price"]));
        notes.add(&rule("price > 5"), &event(&["id"]));
        assert_eq!(notes.findings().count(), 0);
    }

    #[test]
    fn filters_that_come_and_go_are_not_all_remembered() {
        let mut notes = FilterNotes::default();
        for number in 0..10 * FIELD_COUNT_MAX {
            notes.add(&rule(&format!("id == {number}")), &event(&["id"]));
        }
        assert!(notes.filters.len() < FIELD_COUNT_MAX);
    }
}
