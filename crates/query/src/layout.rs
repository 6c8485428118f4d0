// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tables there are, and which columns they have: one table with all events, and one for each name of events. A field or context is
//! the column of its name, in every table; where that is taken, by one of the columns that every event has or by a field of some class,
//! it is `field_NAME` or `context_NAME`. docs/reference/query.md says so to users.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use piste_ctf::read::plan::{EventPlan, Node};
use piste_ctf::read::schema::Scope;
use piste_modelling::{Network, Symbols, is_of_kernel};
use piste_trace::Trace;

use crate::kind::{self, Kind};

/// The scopes whose fields are columns.
pub(crate) const SCOPES: [Scope; 4] = [
    Scope::PacketContext,
    Scope::EventContext,
    Scope::SpecificContext,
    Scope::Payload,
];

/// A column that every table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Common {
    Time,
    TimeNs,
    Name,
    Trace,
    Stream,
    Cpu,
    Pid,
    Tid,
    Comm,
}

impl Common {
    /// In the order in which they come.
    pub(crate) const ALL: [(Common, &'static str); 9] = [
        (Common::Time, "time"),
        (Common::TimeNs, "time_ns"),
        (Common::Name, "name"),
        (Common::Trace, "trace"),
        (Common::Stream, "stream"),
        (Common::Cpu, "cpu"),
        (Common::Pid, "pid"),
        (Common::Tid, "tid"),
        (Common::Comm, "comm"),
    ];

    pub(crate) fn of_name(name: &str) -> Option<Common> {
        Common::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(common, _)| *common)
    }

    /// The contexts that it is taken from, the best first.
    fn contexts(self) -> &'static [&'static str] {
        match self {
            Common::Cpu => &["cpu_id"],
            Common::Pid => &["pid", "vpid"],
            Common::Tid => &["tid", "vtid"],
            Common::Comm => &["comm", "procname"],
            _ => &[],
        }
    }
}

/// A class of events of a trace.
pub(crate) struct Class {
    /// Index into the layout's names.
    pub(crate) name: u32,
    /// For each of [`SCOPES`], its fields in their order.
    pub(crate) fields: [Vec<FieldColumn>; 4],
}

/// Where a field goes.
pub(crate) struct FieldColumn {
    pub(crate) node: &'static Node,
    /// The column of its name.
    pub(crate) name: String,
    /// The column of its values' names.
    pub(crate) label: Option<String>,
    /// The column of the names of what lies at its addresses, if those are wanted.
    pub(crate) symbol: Option<String>,
    /// The column of every table that it is the source of.
    pub(crate) common: Option<Common>,
    /// It has no column: only the format needs it.
    pub(crate) is_hidden: bool,
}

impl FieldColumn {
    /// It has this column.
    pub(crate) fn has(&self, column: &str) -> bool {
        let others = [&self.label, &self.symbol];
        self.name == column || others.into_iter().flatten().any(|other| other == column)
    }
}

/// Everything that is known before an event is read.
pub(crate) struct Layout {
    /// Those of the kernel first.
    pub(crate) traces: &'static [Trace],
    kernel_count: usize,
    /// Names of events, each once.
    pub(crate) names: Vec<String>,
    pub(crate) classes: Vec<Class>,
    /// Indices into the classes, by trace and the number of the event's plan.
    by_number: Vec<Vec<Option<usize>>>,
    /// Columns of the table of all events behind the common ones.
    pub(crate) columns: Vec<(String, Kind)>,
    /// Names for addresses, if they are wanted.
    pub(crate) symbols: Option<Symbols<'static>>,
}

impl Layout {
    /// Of traces. They are kept until the program ends: streams that read them refer to them. `symbols` says whether names for addresses are
    /// wanted, and where they may come from.
    pub(crate) fn new(mut traces: Vec<Trace>, symbols: Option<Network>) -> Arc<Layout> {
        traces.sort_by_key(|trace| !is_of_kernel(trace));
        let traces: &'static [Trace] = Box::leak(traces.into_boxed_slice());
        let mut layout = Layout {
            traces,
            kernel_count: traces.partition_point(is_of_kernel),
            names: Vec::new(),
            classes: Vec::new(),
            by_number: Vec::new(),
            columns: Vec::new(),
            symbols: symbols.map(|network| Symbols::new(traces, network)),
        };
        let payload_names = payload_names(traces, symbols.is_some());
        let mut names = BTreeMap::new();
        for trace in traces {
            let mut by_number = vec![None; trace.plan.event_names().len()];
            for stream_class_id in trace.plan.schema.streams.keys() {
                for plan in trace.plan.events(*stream_class_id) {
                    let name = *names.entry(plan.name.to_string()).or_insert_with(|| {
                        layout.names.push(plan.name.to_string());
                        layout.names.len() as u32 - 1
                    });
                    let fields = SCOPES.map(|scope| {
                        let structure = trace.plan.structure(*stream_class_id, plan, scope);
                        structure.map_or_else(Vec::new, |structure| {
                            columns(scope, kind::fields(structure), &payload_names, symbols.is_some())
                        })
                    });
                    by_number[plan.number] = Some(layout.classes.len());
                    layout.classes.push(Class { name, fields });
                }
            }
            layout.by_number.push(by_number);
        }
        layout.classes.iter_mut().for_each(Class::choose_sources);
        layout.columns = layout.columns_of(layout.classes.iter());
        Arc::new(layout)
    }

    /// Sentences about names of addresses that are not known, of those that were asked for.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.symbols.as_ref().map_or_else(Vec::new, Symbols::notes)
    }

    /// The traces that tell what a kernel did.
    pub(crate) fn kernel(&self) -> &'static [Trace] {
        &self.traces[..self.kernel_count]
    }

    /// Those of programs.
    pub(crate) fn programs(&self) -> &'static [Trace] {
        &self.traces[self.kernel_count..]
    }

    /// Columns of some classes, behind the common ones: contexts first.
    fn columns_of<'c>(&self, classes: impl Iterator<Item = &'c Class> + Clone) -> Vec<(String, Kind)> {
        let mut columns: Vec<(String, Kind)> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut add = |name: &str, kind: Kind| match known.get(name) {
            Some(index) => {
                let (_, known) = &mut columns[*index];
                *known = std::mem::replace(known, Kind::Text).merge(kind);
            }
            None => {
                known.insert(name.to_owned(), columns.len());
                columns.push((name.to_owned(), kind));
            }
        };
        for scope in 0..SCOPES.len() {
            let fields = classes.clone().flat_map(|class| &class.fields[scope]);
            for field in fields.filter(|field| !field.is_hidden) {
                let Some(kind) = Kind::of(field.node, self.symbols.is_some()) else {
                    continue;
                };
                // A context `tid` is the column `tid` of every table.
                if Common::of_name(&field.name).is_none() {
                    add(&field.name, kind);
                }
                if let Some(label) = &field.label {
                    add(label, Kind::Text);
                }
                if let (Some(symbol), Some(kind)) = (&field.symbol, Kind::of_symbols(field.node)) {
                    add(symbol, kind);
                }
            }
        }
        columns
    }

    /// Columns that the classes of a name have, behind the common ones.
    pub(crate) fn columns_of_name(&self, name: u32) -> Vec<(String, Kind)> {
        self.columns_of(self.classes.iter().filter(|class| class.name == name))
    }

    /// The class of an event of a trace.
    #[inline]
    pub(crate) fn class(&self, trace: usize, plan: &EventPlan) -> Option<usize> {
        self.by_number[trace][plan.number]
    }
}

impl Common {
    /// Its type.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Common::Time => None,
            Common::Name | Common::Trace | Common::Comm => Some(Kind::Text),
            _ => Some(Kind::Integer),
        }
    }
}

impl Class {
    /// Of several contexts that could be the source of a common column, the best is.
    fn choose_sources(&mut self) {
        for (common, _) in Common::ALL {
            let is_source = |field: &FieldColumn, context: &str| {
                field.common == Some(common) && field.name.trim_start_matches("context_") == context
            };
            let best = common.contexts().iter().find(|context| {
                let mut contexts = self.fields[..3].iter().flatten();
                contexts.any(|field| is_source(field, context))
            });
            let mut is_taken = false;
            for field in self
                .fields
                .iter_mut()
                .flatten()
                .filter(|field| field.common == Some(common))
            {
                let is_best = best.is_some_and(|best| is_source(field, best)) && !is_taken;
                is_taken |= is_best;
                if !is_best {
                    field.common = None;
                    // The name stays that of the source's column.
                    if Common::of_name(&field.name).is_some() {
                        field.name = format!("context_{}", field.name);
                    }
                }
            }
        }
    }
}

/// The names of all fields of all classes.
fn payload_names(traces: &[Trace], with_symbols: bool) -> HashSet<String> {
    let mut names = HashSet::new();
    for trace in traces {
        for id in trace.plan.schema.streams.keys() {
            for plan in trace.plan.events(*id) {
                if let Some(structure) = trace.plan.structure(*id, plan, Scope::Payload) {
                    for field in kind::fields(structure) {
                        names.extend(field.label);
                        names.extend(field.symbol.filter(|_| with_symbols));
                        names.insert(field.name);
                    }
                }
            }
        }
    }
    names
}

fn columns(
    scope: Scope,
    fields: Vec<kind::FieldColumns<'static>>,
    payload_names: &HashSet<String>,
    with_symbols: bool,
) -> Vec<FieldColumn> {
    let is_payload = scope == Scope::Payload;
    let column = |field: kind::FieldColumns<'static>| {
        let common = Common::ALL.iter().map(|(common, _)| *common).find(|common| {
            let is_plain = matches!(
                (Kind::of(field.node, false), common.kind()),
                (Some(Kind::Integer | Kind::Unsigned), Some(Kind::Integer)) | (Some(Kind::Text), Some(Kind::Text))
            );
            !is_payload && is_plain && common.contexts().contains(&field.name.as_str())
        });
        let shown = |name: String| {
            let is_common = Common::of_name(&name).is_some();
            match is_payload {
                true if is_common => format!("field_{name}"),
                false if is_common && common.is_none() || payload_names.contains(&name) && !is_common => {
                    format!("context_{name}")
                }
                _ => name,
            }
        };
        FieldColumn {
            // Whoever reads packets knows their CPU.
            is_hidden: is_technical(field.node) || scope == Scope::PacketContext && common == Some(Common::Cpu),
            node: field.node,
            name: shown(field.name),
            label: field.label.map(shown),
            symbol: field.symbol.filter(|_| with_symbols).map(shown),
            common,
        }
    };
    fields.into_iter().map(column).collect()
}

fn is_technical(node: &Node) -> bool {
    matches!(node, Node::Integer(integer) if integer.is_technical)
}
