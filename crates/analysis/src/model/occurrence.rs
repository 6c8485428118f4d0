// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens at an instant, and on whose behalf as far as the trace tells.

use super::state::ThreadId;
use super::{At, CPUS_MAX, Listen, System};
use crate::facts::{Fact, Interrupt};
use crate::names::Name;

/// Something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// What.
    pub what: Happening,
    /// The thread that had the CPU, if that is known.
    pub thread: Option<ThreadId>,
    /// The interrupt that did it; absent: the thread.
    pub interrupt: Option<Interrupt>,
    /// Where.
    pub cpu: u32,
    /// When.
    pub ns: i64,
}

/// What happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// So many pages of memory are given to somebody.
    PagesAllocated(u64),
    /// They are given back.
    PagesFreed(u64),
    /// Memory was touched that is not there yet.
    PageFault {
        /// In the kernel, for a system call.
        is_kernel: bool,
    },
    /// A packet is put into the queue of a network device, which may take it in several.
    PacketQueued {
        /// Which.
        interface: Name,
        /// Its size.
        bytes: u64,
    },
    /// A packet is handed to a network device.
    PacketSent {
        /// Which.
        interface: Name,
        /// Its size.
        bytes: u64,
    },
    /// A packet came.
    PacketReceived {
        /// From which.
        interface: Name,
        /// Its size.
        bytes: u64,
    },
    /// A CPU, perhaps another one than that of the event, gets another frequency.
    Frequency {
        /// Which.
        cpu: u32,
        /// In thousands per second.
        khz: u32,
    },
}

/// Linux has no larger pieces of memory than of 2^order pages; numbers beyond that are damage.
const ORDER_MAX: u32 = 32;

impl System {
    /// Tells what a fact is that changes no state.
    pub(super) fn occurrence(&mut self, fact: &Fact<'_>, cpu: u32, at: &At, to: &mut dyn Listen) {
        let what = match *fact {
            Fact::PagesAllocated { order } if order <= ORDER_MAX => Happening::PagesAllocated(1 << order),
            Fact::PagesFreed { order } if order <= ORDER_MAX => Happening::PagesFreed(1 << order),
            Fact::PageFault { is_kernel } => Happening::PageFault { is_kernel },
            Fact::PacketQueued(packet) => Happening::PacketQueued {
                interface: self.names.keep(packet.interface),
                bytes: packet.bytes.into(),
            },
            Fact::PacketSent(packet) => Happening::PacketSent {
                interface: self.names.keep(packet.interface),
                bytes: packet.bytes.into(),
            },
            Fact::PacketReceived(packet) => Happening::PacketReceived {
                interface: self.names.keep(packet.interface),
                bytes: packet.bytes.into(),
            },
            Fact::Frequency { cpu, khz } if cpu < CPUS_MAX => Happening::Frequency { cpu, khz },
            _ => return,
        };
        let current = self.current(cpu, at, to);
        let interrupt = self.cpu(cpu).stack.last().map(|pending| pending.interrupt);
        let is_told = interrupt.is_some() || self.cpu(cpu).is_of_thread();
        let thread = current.filter(|_| is_told);
        if self.is_told() {
            let occurrence = Occurrence {
                what,
                thread,
                interrupt,
                cpu,
                ns: at.ns,
            };
            to.occurrence(self, &occurrence);
        }
    }
}
