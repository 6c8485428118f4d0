// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the events that a rule means have the fields that it chooses.

use std::collections::BTreeSet;

use super::ResolvedEvent;
use crate::catalog::Catalog;
use crate::convert::field_names;
use crate::layout::Layout;
use crate::spec::Rule;
use crate::stacks;
use piste_patterns::nearest;

/// No event of a rule has a field that it chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoField {
    /// The field.
    pub field: String,
    /// Fields of these events that look like it, the most alike first.
    pub nearest: Vec<String>,
}

/// Checks that each field which `rule` chooses is one of at least one of its events: those of `meant`, or a probe's, which has
/// `of_probe`. Reads formats until all are found; of all that are meant when one is not.
///
/// # Errors
/// The first field that no event has.
pub fn check_fields(
    rule: &Rule,
    meant: &[ResolvedEvent],
    of_probe: Vec<String>,
    catalog: &Catalog,
) -> Result<(), NoField> {
    if rule.fields.is_empty() {
        return Ok(());
    }
    let mut known: BTreeSet<String> = of_probe.into_iter().collect();
    let stack = rule.stack.iter().flat_map(stacks::fields);
    known.extend(stack.map(|field| field.name));
    let layout = Layout::new(catalog.names());
    let mut events = meant.iter();
    loop {
        let Some(field) = rule.fields.iter().find(|field| !known.contains(*field)) else {
            return Ok(());
        };
        match events.next() {
            Some(event) => known.extend(fields_of(event, catalog, &layout)),
            None => {
                return Err(NoField {
                    field: field.clone(),
                    nearest: nearest(field, known.iter().map(String::as_str), 3),
                });
            }
        }
    }
}

/// None of an event that is gone, or whose format is not understood.
fn fields_of(event: &ResolvedEvent, catalog: &Catalog, layout: &Layout) -> Vec<String> {
    match event {
        ResolvedEvent::Tracepoint { system, name, .. } => {
            let format = catalog.by_name(system, name);
            format.map_or_else(
                |_| Vec::new(),
                |format| field_names::of_event(format, layout, catalog.architecture()),
            )
        }
        ResolvedEvent::Syscall { table, number, .. } => field_names::of_call(*table, *number, catalog.architecture()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve;
    use crate::spec::{EventSource, Stack};

    const WAKEUP: &str =
        "name: sched_wakeup\nID: 374\nformat:\n\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

    /// What is said of `fields` when a rule chooses them.
    fn check(source: EventSource, stack: Option<Stack>, fields: &[&str], expected: Result<(), (&str, &[&str])>) {
        let folder = tempfile::tempdir().unwrap();
        let event = folder.path().join("sched/sched_wakeup");
        std::fs::create_dir_all(&event).unwrap();
        std::fs::write(event.join("enable"), "0").unwrap();
        std::fs::write(event.join("format"), WAKEUP).unwrap();
        let catalog = Catalog::read_folder(folder.path()).unwrap();
        let rule = Rule {
            source,
            excluded: Vec::new(),
            filter: None,
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            stack,
            enabled: true,
        };
        let meant = resolve::rule(&rule, &catalog, None).unwrap();
        let checked = check_fields(&rule, &meant, Vec::new(), &catalog);
        let expected = expected.map_err(|(field, nearest)| NoField {
            field: field.to_owned(),
            nearest: nearest.iter().map(|name| (*name).to_owned()).collect(),
        });
        assert_eq!(checked, expected, "{fields:?}");
    }

    #[test]
    fn fields_are_known_by_their_names_in_the_trace() {
        let pattern = || "sched_*".to_owned();
        let wakeup = || EventSource::Tracepoint { pattern: pattern() };
        check(wakeup(), None, &[], Ok(()));
        check(wakeup(), None, &["tid"], Ok(()));
        check(wakeup(), None, &["tid", "pid"], Err(("pid", &["tid"])));
        check(wakeup(), None, &["nosuch"], Err(("nosuch", &[])));
        let stack = Stack {
            kernel: true,
            user: false,
            depth: None,
            range: None,
        };
        check(wakeup(), Some(stack), &["callstack_kernel"], Ok(()));
    }

    #[test]
    fn a_call_has_arguments_and_a_result_and_one_call_of_many_is_enough() {
        let calls = |pattern: &str| EventSource::Syscall {
            part: crate::spec::CallPart::Both,
            pattern: pattern.into(),
        };
        check(calls("openat"), None, &["filename", "ret"], Ok(()));
        check(calls("*"), None, &["filename"], Ok(()));
        check(calls("close"), None, &["filname"], Err(("filname", &[])));
        check(calls("openat"), None, &["filname"], Err(("filname", &["filename"])));
    }
}
