// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of each event when not everything is: fields and variables in the language of filters.

use piste_ctf::read::plan::{EventPlan, Node};
use piste_ctf::read::schema::Scope;
use piste_filter::expression::ANYWHERE;
use piste_filter::{Field, FilterError, Term};
use piste_patterns::matches;

use crate::folder::Trace;
use crate::select::Selection;

/// A value that is shown of each event that has it.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) heading: String,
    pub(crate) term: Term,
}

/// What rows begin with; a field of such a name is headed by its scope as well.
const TAKEN: [&str; 3] = ["time", "name", "cpu"];

/// The order in which they are headed.
const SHOWN: [(Scope, &str); 4] = [
    (Scope::PacketContext, "$packet_context."),
    (Scope::EventContext, "$event_context."),
    (Scope::SpecificContext, "$specific_context."),
    (Scope::Payload, "$payload."),
];

impl Column {
    /// From `ret`, `inner.x`, `list[0]`, `$ctx.vtid`, `$pid`.
    ///
    /// # Errors
    /// Where and why it means nothing.
    pub fn parse(text: &str) -> Result<Column, FilterError> {
        let term = piste_filter::operand(text)?.term;
        if matches!(term, Term::Integer(_) | Term::Float(_) | Term::Text(_)) {
            let reason = "expected a field, or one of $cpu, $pid, $tid, $comm, $time and $name";
            return Err(FilterError::at(0, reason));
        }
        Ok(Column {
            heading: text.to_owned(),
            term,
        })
    }

    /// Every field of every class of events that may be wanted, contexts first, each name once; before them the CPU.
    pub fn all(traces: &[Trace], selection: &Selection) -> Vec<Column> {
        let mut columns = vec![Column {
            heading: "cpu".into(),
            term: Term::Cpu,
        }];
        for (scope, prefix) in SHOWN {
            for trace in traces {
                for &class_id in trace.schema().streams.keys() {
                    for event in trace.plan.events(class_id) {
                        let patterns = &selection.events;
                        if patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, &event.name)) {
                            add(&mut columns, trace, class_id, event, (scope, prefix));
                        }
                    }
                }
            }
        }
        columns
    }

    /// What stands above it.
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// What it shows is one process's alone: no event of another has the same.
    pub fn tells_the_process(&self) -> bool {
        matches!(self.term, Term::Pid | Term::Tid)
    }

    pub(super) fn asks_who(&self) -> bool {
        matches!(self.term, Term::Pid | Term::Tid | Term::Comm)
    }
}

fn add(columns: &mut Vec<Column>, trace: &Trace, class_id: u64, event: &EventPlan, (scope, prefix): (Scope, &str)) {
    let Some(structure) = trace.plan.structure(class_id, event, scope) else {
        return;
    };
    for (name, node) in structure.fields() {
        if matches!(node, Node::Integer(integer) if integer.is_hidden()) {
            continue;
        }
        let heading = match TAKEN.contains(&&**name) {
            true => format!("{prefix}{name}"),
            false => name.to_string(),
        };
        if columns.iter().any(|known| known.heading == heading) {
            continue;
        }
        let term = Term::Field(Field::named(ANYWHERE, name));
        columns.push(Column { heading, term });
    }
}
