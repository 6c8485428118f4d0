// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a state dump: their names and fields as viewers know them, told once for metadata and records alike.
//!
//! [`Event::tell`] names each field with its value. [`classes`] listens to the names, packets.rs to the values.

use piste_ctf::{Base, Element, EventClass, Field, FieldKind, NO_LEVEL};

/// Something that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What follows, up to the end, is one state dump.
    Start,
    /// A thread.
    Thread(Thread),
    /// A process, beyond what its threads tell.
    Process(Process),
    /// An open file.
    File(File),
    /// A disk or a part of one.
    Block(Block),
    /// A network interface.
    Interface(Interface),
    /// An interrupt line.
    Interrupt(Interrupt),
    /// That was everything.
    End,
}

/// A thread, the first of a process included. Numbers are those of pisted's pid namespace, or of the thread's own (`virtual_`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Thread {
    pub tid: i32,
    pub pid: i32,
    pub parent_pid: i32,
    pub virtual_tid: i32,
    pub virtual_pid: i32,
    pub name: String,
    pub is_kernel: bool,
    pub execution: Execution,
    pub status: Status,
    /// Where it runs, or ran last.
    pub cpu: u32,
    /// How deep its pid namespace is nested.
    pub namespace_level: u32,
    /// Inode of its pid namespace.
    pub namespace: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Where a thread is, in the numbers that viewers know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Execution {
    /// It waits in the kernel for what it asked for.
    Syscall = 1,
    /// Nobody can tell: it runs.
    #[default]
    Unknown = 5,
}

/// What a thread does, in the numbers that viewers know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It runs, or would if it had a CPU.
    WaitCpu = 2,
    /// It is dead, and nobody asked for its exit status yet.
    Zombie = 4,
    /// It waits for something.
    #[default]
    Wait = 5,
    /// It is dead.
    Dead = 7,
}

/// A process, beyond what its threads tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its arguments with spaces between; cut where it is long.
    pub command_line: String,
    /// Its control group.
    pub cgroup: String,
}

/// An open file of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Who has it.
    pub pid: i32,
    /// By which number.
    pub descriptor: i32,
    /// `O_` flags.
    pub flags: u32,
    /// 1 to read, 2 to write, 3 both.
    pub mode: u32,
    /// A path, or what the kernel calls it: `socket:[4711]`.
    pub name: String,
}

/// A disk or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// As in the events of block devices: major number << 20 | minor number.
    pub device: u32,
    /// As in /sys/class/block.
    pub name: String,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// As in the events of network devices.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its hardware address, as text.
    pub address: String,
}

/// An interrupt line, with one of those who handle it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub irq: u32,
    /// Name of the controller.
    pub controller: String,
    /// Name of the handler, as in `irq_handler_entry`.
    pub action: String,
}

/// Listens to the fields of an event.
pub(super) trait Listener {
    fn signed(&mut self, name: &'static str, value: i32);
    fn unsigned(&mut self, name: &'static str, value: u32);
    fn text(&mut self, name: &'static str, value: &str);
}

impl Event {
    /// The class of the event: its number and its name.
    pub(super) fn class(&self) -> (u32, &'static str) {
        match self {
            Event::Start => (0, "lttng_statedump_start"),
            Event::End => (1, "lttng_statedump_end"),
            Event::Thread(_) => (2, "lttng_statedump_process_state"),
            Event::File(_) => (3, "lttng_statedump_file_descriptor"),
            Event::Block(_) => (4, "lttng_statedump_block_device"),
            Event::Interface(_) => (5, "lttng_statedump_network_interface"),
            Event::Interrupt(_) => (6, "lttng_statedump_interrupt"),
            Event::Process(_) => (7, "lttng_statedump_process"),
        }
    }

    /// Tells each field, in the order of the record.
    pub(super) fn tell(&self, to: &mut dyn Listener) {
        match self {
            Event::Start | Event::End => {}
            Event::Thread(thread) => thread.tell(to),
            Event::Process(process) => {
                to.signed("pid", process.pid);
                to.text("cmdline", &process.command_line);
                to.text("cgroup", &process.cgroup);
            }
            Event::File(file) => {
                to.signed("pid", file.pid);
                to.signed("fd", file.descriptor);
                to.unsigned("flags", file.flags);
                to.unsigned("fmode", file.mode);
                to.text("filename", &file.name);
            }
            Event::Block(block) => {
                to.unsigned("dev", block.device);
                to.text("diskname", &block.name);
            }
            Event::Interface(interface) => {
                to.text("name", &interface.name);
                to.unsigned("ifindex", interface.index);
                to.text("address", &interface.address);
            }
            Event::Interrupt(interrupt) => {
                to.unsigned("irq", interrupt.irq);
                to.text("name", &interrupt.controller);
                to.text("action", &interrupt.action);
            }
        }
    }
}

impl Thread {
    fn tell(&self, to: &mut dyn Listener) {
        to.signed("tid", self.tid);
        to.signed("vtid", self.virtual_tid);
        to.signed("pid", self.pid);
        to.signed("vpid", self.virtual_pid);
        to.signed("ppid", self.parent_pid);
        to.text("name", &self.name);
        to.signed("type", self.is_kernel.into());
        to.signed("mode", self.execution as i32);
        to.signed("submode", 0);
        to.signed("status", self.status as i32);
        to.unsigned("cpu", self.cpu);
        to.unsigned("ns_level", self.namespace_level);
        to.unsigned("ns_inum", self.namespace);
        to.unsigned("uid", self.uid);
        to.unsigned("gid", self.gid);
    }
}

/// The event classes of a state dump, for the metadata.
pub fn classes() -> Vec<EventClass> {
    let events = [
        Event::Start,
        Event::End,
        Event::Thread(Thread::default()),
        Event::File(File::default()),
        Event::Block(Block::default()),
        Event::Interface(Interface::default()),
        Event::Interrupt(Interrupt::default()),
        Event::Process(Process::default()),
    ];
    let describe = |event: &Event| {
        let mut fields = Fields::default();
        event.tell(&mut fields);
        let (id, name) = event.class();
        EventClass {
            id,
            name: name.to_owned(),
            level: NO_LEVEL,
            contexts: vec![],
            fields: fields.0,
        }
    };
    events.iter().map(describe).collect()
}

/// Collects the fields of an event class.
#[derive(Default)]
struct Fields(Vec<Field>);

impl Fields {
    fn add(&mut self, name: &str, kind: FieldKind) {
        self.0.push(Field {
            name: name.to_owned(),
            kind,
        });
    }

    fn add_number(&mut self, name: &str, element: Element) {
        let base = Base::Decimal;
        self.add(name, FieldKind::Scalar { element, base });
    }
}

impl Listener for Fields {
    fn signed(&mut self, name: &'static str, _: i32) {
        self.add_number(name, Element::Int32);
    }

    fn unsigned(&mut self, name: &'static str, _: u32) {
        self.add_number(name, Element::Uint32);
    }

    fn text(&mut self, name: &'static str, _: &str) {
        self.add(name, FieldKind::String);
    }
}
