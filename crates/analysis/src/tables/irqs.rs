// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each interrupt, hard and soft, whose begin and end are in the trace.

use super::column::{Cell, Column, Emitter, Lasts, column, times};
use super::{Rows, Table, headings};
use crate::analyses::INTERRUPTS;
use crate::analyses::irq::soft_name;
use crate::analysis::Need;
use crate::facts::Interrupt;
use crate::model::{Interruption, Listen, System};
use crate::report::Unit;

pub(super) static IRQS: Table = Table {
    name: "irqs",
    needs: &[Need {
        is_essential: true,
        ..INTERRUPTS
    }],
    columns: || headings(&columns()),
    begin: |chosen, sink| Box::new(Irqs(Emitter::new(&columns(), chosen, sink))),
};

fn columns() -> Vec<Column<Interruption>> {
    let own = [
        column("kind", Unit::Text, |_, one: &Interruption| match one.interrupt {
            Interrupt::Device(..) => "irq".into(),
            Interrupt::Soft(_) => "softirq".into(),
            Interrupt::Vector(_) => "vector".into(),
            Interrupt::Timer => "timer".into(),
        }),
        column("number", Unit::Id, |_, one: &Interruption| match one.interrupt {
            Interrupt::Device(number, _) | Interrupt::Soft(number) => number.into(),
            Interrupt::Vector(_) | Interrupt::Timer => Cell::None,
        }),
        column("name", Unit::Text, |system, one: &Interruption| match one.interrupt {
            Interrupt::Device(_, name) | Interrupt::Vector(name) => {
                Some(system.names.text(name)).filter(|name| !name.is_empty()).into()
            }
            Interrupt::Soft(vector) => soft_name(vector).into(),
            Interrupt::Timer => Cell::None,
        }),
        column("cpu", Unit::Id, |_, one: &Interruption| one.cpu.into()),
        column("raised_ns", Unit::Moment, |_, one: &Interruption| one.raised_ns.into()),
        column("nested_ns", Unit::Nanoseconds, |_, one: &Interruption| {
            one.nested_ns.into()
        }),
    ];
    [&times()[..], &own].concat()
}

impl Lasts for Interruption {
    fn begin_ns(&self) -> Option<i64> {
        Some(self.begin_ns)
    }

    fn end_ns(&self) -> Option<i64> {
        Some(self.end_ns)
    }
}

struct Irqs(Emitter<Interruption>);

impl Listen for Irqs {
    fn interruption(&mut self, system: &System, interruption: &Interruption) {
        self.0.row(system, interruption);
    }
}

impl Rows for Irqs {
    fn finish(&mut self, _: &System) {}
}
