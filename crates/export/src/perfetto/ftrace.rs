// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the kernel as Perfetto's messages for them. The names of a trace are turned back into the kernel's, as are what traces have
//! in another form: priorities, states of threads, kinds of block requests. Everything else becomes a generic event with all its fields.

use super::Current;
use crate::fields::{Children, Names, Value};
use crate::protobuf::Message;
use crate::reader::Seen;

/// A message of FtraceEvent.
pub(super) struct Row {
    /// Name of the event in the trace.
    event: &'static str,
    /// Its field in FtraceEvent.
    pub(super) number: u32,
    fields: &'static [Field],
}

/// Names in the trace, field of the message, and what is between them.
type Field = (&'static [&'static str], u32, Change);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    /// See [`PRIORITY_BASE`].
    Priority,
    /// What traces write for a thread that is dead.
    State,
    /// A bit mask, of which the kernel writes letters.
    Letters,
}

use Change::{Letters, None as Same, Priority, State};

const COMM: Field = (&["comm"], 1, Same);
const TID: Field = (&["tid", "pid"], 2, Same);
const PRIO: Field = (&["prio"], 3, Priority);
const WAKE: &[Field] = &[COMM, TID, PRIO, (&["target_cpu"], 5, Same)];
const END: &[Field] = &[COMM, TID, PRIO];
const VECTOR: &[Field] = &[(&["vec"], 1, Same)];
const REQUEST: &[Field] = &[
    (&["dev"], 1, Same),
    (&["sector"], 2, Same),
    (&["nr_sector"], 3, Same),
    (&["bytes"], 4, Same),
    (&["rwbs_raw", "rwbs"], 5, Letters),
    (&["comm"], 6, Same),
    (&["cmd"], 7, Same),
];
const FREQUENCY: &[Field] = &[(&["state"], 1, Same), (&["cpu_id"], 2, Same)];

const fn row(event: &'static str, number: u32, fields: &'static [Field]) -> Row {
    Row { event, number, fields }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("sched_switch", SWITCH, &[
        (&["prev_comm"], 1, Same), (&["prev_tid", "prev_pid"], 2, Same), (&["prev_prio"], 3, Priority),
        (&["prev_state_raw"], 4, Same), (&["prev_state"], 4, State),
        (&["next_comm"], 5, Same), (&["next_tid", "next_pid"], 6, Same), (&["next_prio"], 7, Priority),
    ]),
    row("power_cpu_frequency", 11, FREQUENCY),
    row("cpu_frequency", 11, FREQUENCY),
    row("power_cpu_idle", 13, FREQUENCY),
    row("cpu_idle", 13, FREQUENCY),
    row("sched_wakeup", 17, WAKE),
    row("sched_waking", 20, WAKE),
    row("irq_softirq_entry", 24, VECTOR),
    row("irq_softirq_exit", 25, VECTOR),
    row("irq_softirq_raise", 26, VECTOR),
    row("irq_handler_entry", 36, &[(&["irq"], 1, Same), (&["name"], 2, Same)]),
    row("irq_handler_exit", 37, &[(&["irq"], 1, Same), (&["ret"], 2, Same)]),
    row("block_rq_issue", 45, REQUEST),
    row("sched_wakeup_new", 114, WAKE),
    row("block_bio_complete", 117, &[
        (&["dev"], 1, Same), (&["sector"], 2, Same), (&["nr_sector"], 3, Same), (&["error"], 4, Same),
        (&["rwbs_raw", "rwbs"], 5, Letters),
    ]),
    row("block_bio_queue", 119, &[
        (&["dev"], 1, Same), (&["sector"], 2, Same), (&["nr_sector"], 3, Same), (&["rwbs_raw", "rwbs"], 4, Letters),
        (&["comm"], 5, Same),
    ]),
    row("block_rq_complete", 125, &[
        (&["dev"], 1, Same), (&["sector"], 2, Same), (&["nr_sector"], 3, Same), (&["rwbs_raw", "rwbs"], 5, Letters),
        (&["cmd"], 6, Same), (&["error"], 7, Same),
    ]),
    row("block_rq_insert", 126, REQUEST),
    row("task_newtask", 235, &[
        (&["pid", "tid"], 1, Same), (&["comm"], 2, Same), (&["clone_flags"], 3, Same), (&["oom_score_adj"], 4, Same),
    ]),
    row("task_rename", 236, &[
        (&["pid", "tid"], 1, Same), (&["oldcomm"], 2, Same), (&["newcomm"], 3, Same), (&["oom_score_adj"], 4, Same),
    ]),
    row("sched_process_exec", 237, &[(&["filename"], 1, Same), TID, (&["old_tid", "old_pid"], 3, Same)]),
    row("sched_process_exit", 238, &[COMM, TID, (&["prio"], 4, Priority)]),
    row("sched_process_fork", 239, &[
        (&["parent_comm"], 1, Same), (&["parent_tid", "parent_pid"], 2, Same), (&["child_comm"], 3, Same),
        (&["child_tid", "child_pid"], 4, Same),
    ]),
    row("sched_process_free", 240, END),
    row("sched_process_wait", 242, END),
    row("signal_deliver", 324, &[(&["code"], 1, Same), (&["sa_flags"], 2, Same), (&["sig"], 3, Same)]),
    row("signal_generate", 325, &[
        (&["code"], 1, Same), (&["comm"], 2, Same), (&["group"], 3, Same), (&["pid", "tid"], 4, Same), (&["result"], 5, Same),
        (&["sig"], 6, Same),
    ]),
    row("sched_pi_setprio", 353, &[
        (&["comm"], 1, Same), (&["newprio"], 2, Priority), (&["oldprio"], 3, Priority), (&["tid", "pid"], 4, Same),
    ]),
    row("sched_migrate_task", 491, &[COMM, TID, PRIO, (&["orig_cpu"], 4, Same), (&["dest_cpu"], 5, Same)]),
];

const SWITCH: u32 = 4;
const GENERIC: u32 = 327;
/// The kernel's priority that traces count as 0.
const PRIORITY_BASE: i64 = 100;

/// Perfetto's message for an event of that name.
pub(super) fn known(event: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.event == event)
}

/// Writes the message of an event into its FtraceEvent.
pub(super) fn write(out: &mut Message, row: Option<&Row>, event: &Seen<'_>) {
    match row {
        Some(row) => out.message(row.number, |message| {
            for (index, field) in row.fields.iter().enumerate() {
                // The first that an event has is the one that says more.
                let is_said = row.fields[..index]
                    .iter()
                    .any(|before| before.1 == field.1 && value(before, event).is_some());
                if !is_said && let Some((name, value)) = value(field, event) {
                    write_value(message, field, name, value, event);
                }
            }
        }),
        None => out.message(GENERIC, |message| {
            message.text(1, event.class.name.as_bytes());
            for field in event.payload.top() {
                let name = field.name.map_or("", |name| event.names.text(name));
                message.message(2, |message| {
                    message.text(1, name.as_bytes());
                    match field.value {
                        Value::Unsigned(value) => message.number(5, value),
                        Value::Signed(value) => message.signed(4, value),
                        Value::Boolean(value) => message.number(5, value.into()),
                        Value::Text(begin, end) | Value::Address(_, begin, end) => {
                            message.text(3, event.payload.bytes(begin, end))
                        }
                        Value::Float(value) => message.text(3, value.to_string().as_bytes()),
                        Value::Structure(_) | Value::Array(_) | Value::Nothing => {
                            message.text(3, shown(event, field.children(), event.names).as_bytes());
                        }
                    }
                });
            }
        }),
    }
}

/// Writes a switch that the trace does not have, without the priority and the state of the thread before, which nobody knows.
pub(super) fn write_turn(out: &mut Message, before: &Current, to: &Current, priority: Option<i64>) {
    out.message(SWITCH, |message| {
        message.text(1, before.comm.as_bytes());
        message.signed(2, before.tid);
        message.text(5, to.comm.as_bytes());
        message.signed(6, to.tid);
        if let Some(priority) = priority {
            message.signed(7, priority + PRIORITY_BASE);
        }
    });
}

fn value(field: &Field, event: &Seen<'_>) -> Option<(&'static str, Value)> {
    let names = field.0.iter();
    names
        .filter_map(|name| Some((*name, event.payload.get(event.names, name)?)))
        .next()
}

fn write_value(out: &mut Message, &(_, number, change): &Field, name: &str, value: Value, event: &Seen<'_>) {
    let plain = match value {
        Value::Unsigned(value) | Value::Address(value, ..) => value.cast_signed(),
        Value::Signed(value) => value,
        Value::Boolean(value) => value.into(),
        Value::Text(begin, end) => return out.text(number, event.payload.bytes(begin, end)),
        _ => return,
    };
    match change {
        Change::None => out.signed(number, plain),
        Change::Priority => out.signed(number, plain + PRIORITY_BASE),
        Change::State => out.signed(number, if plain == 64 { 16 } else { plain }),
        Change::Letters => {
            debug_assert!(name.starts_with("rwbs"));
            out.text(number, letters(plain).as_bytes());
        }
    }
}

/// `WS`, `RA`: as the kernel writes what a block request does.
fn letters(bits: i64) -> String {
    const LETTERS: [(i64, char); 11] = [
        (1024, 'F'),
        (1, 'W'),
        (2, 'D'),
        (128, 'E'),
        (256, 'F'),
        (4, 'R'),
        (512, 'F'),
        (8, 'A'),
        (32, 'S'),
        (64, 'M'),
        (16, 'B'),
    ];
    LETTERS
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, letter)| *letter)
        .collect()
}

/// `1 2 3`: what a generic event has no type for.
fn shown(event: &Seen<'_>, children: Children<'_>, names: &Names) -> String {
    let parts = children.map(|child| {
        let value = match child.value {
            Value::Unsigned(value) => value.to_string(),
            Value::Signed(value) => value.to_string(),
            Value::Boolean(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(begin, end) | Value::Address(_, begin, end) => {
                String::from_utf8_lossy(event.payload.bytes(begin, end)).into_owned()
            }
            Value::Structure(_) | Value::Array(_) => format!("({})", shown(event, child.children(), names)),
            Value::Nothing => String::new(),
        };
        match child.name {
            Some(name) => format!("{}={value}", names.text(name)),
            None => value,
        }
    });
    parts.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_in_letters() {
        assert_eq!(letters(1 | 32), "WS");
        assert_eq!(letters(4 | 8), "RA");
        assert_eq!(letters(1024 | 1 | 512 | 32 | 64), "FWFSM");
    }

    #[test]
    fn each_event_has_one_row() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(
                ROWS[..index].iter().all(|other| other.event != row.event),
                "{}",
                row.event
            );
        }
    }
}
