// SPDX-License-Identifier: MIT OR Apache-2.0
//! What interrupts threads: devices, soft interrupts, timers, and what a CPU calls its own, whose name is in that of the class.

use super::{Class, class};
use crate::facts::fact::{Fact, Interrupt};
use crate::facts::values::Values;
use crate::names::{Name, Names};

pub(super) static CLASSES: [Class; 9] = [
    class!("irq_handler_entry", [irq: "irq", name: "name"], |values, _name, names| Fact::Begin(
        Interrupt::Device(values.number(irq)? as u32, names.keep(values.text(name)))
    )),
    class!("irq_handler_exit", [irq: "irq"], |values| Fact::End(Interrupt::Device(
        values.number(irq)? as u32,
        Name::default()
    ))),
    class!("irq_softirq_entry|softirq_entry", [vector: "vec"], |values| Fact::Begin(Interrupt::Soft(
        values.number(vector)? as u32
    ))),
    class!("irq_softirq_exit|softirq_exit", [vector: "vec"], |values| Fact::End(Interrupt::Soft(
        values.number(vector)? as u32
    ))),
    class!("irq_softirq_raise|softirq_raise", [vector: "vec"], |values| Fact::SoftirqRaise {
        vector: values.number(vector)? as u32,
    }),
    class!("timer_hrtimer_expire_entry|hrtimer_expire_entry", [], |_values| {
        Fact::Begin(Interrupt::Timer)
    }),
    class!(
        "timer_hrtimer_expire_exit|hrtimer_expire_exit",
        [],
        |_values| Fact::End(Interrupt::Timer)
    ),
    class!(
        "x86_exceptions_page_fault_user|exceptions_page_fault_user|page_fault_user",
        [],
        |_values| Fact::PageFault { is_kernel: false }
    ),
    class!(
        "x86_exceptions_page_fault_kernel|exceptions_page_fault_kernel|page_fault_kernel",
        [],
        |_values| Fact::PageFault { is_kernel: true }
    ),
];

static VECTOR_ENTRY: Class = class!("", [], |_values, name, _names| Fact::Begin(Interrupt::Vector(name)));
static VECTOR_EXIT: Class = class!("", [], |_values, name, _names| Fact::End(Interrupt::Vector(name)));

/// The class of a vector's entries or exits.
pub(super) fn of(class: &str) -> Option<(&'static Class, String)> {
    let vector = class
        .strip_prefix("x86_")
        .unwrap_or(class)
        .strip_prefix("irq_vectors_")?;
    let (known, vector) = match vector.strip_suffix("_entry") {
        Some(vector) => (&VECTOR_ENTRY, vector),
        None => (&VECTOR_EXIT, vector.strip_suffix("_exit")?),
    };
    Some((known, vector.to_owned()))
}
