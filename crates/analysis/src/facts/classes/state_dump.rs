// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was there when the trace began.

use super::{Class, class};
use crate::facts::fact::{DumpedThread, Fact, FileOwner};
use crate::facts::values::Values;
use crate::names::{Name, Names};

pub(super) static CLASSES: [Class; 7] = [
    class!(
        "lttng_statedump_process_state",
        [
            tid: "tid",
            pid: "pid",
            parent_pid: "ppid",
            name: "name",
            kind: "type",
            status: "status",
            uid: "uid",
            namespace: "ns_inum",
            file_table: "file_table_address",
        ],
        |values| Fact::DumpedThread(DumpedThread {
            tid: values.id(tid)?,
            pid: values.id(pid)?,
            parent_pid: values.id(parent_pid),
            name: values.text(name),
            is_kernel: values.number(kind).map(|kind| kind == 1),
            is_waiting: values.number(status) == Some(5),
            uid: values.number(uid).map(|uid| uid as u32),
            namespace: values
                .number(namespace)
                .map(|inode| inode as u32)
                .filter(|inode| *inode != 0),
            file_table: values.number(file_table).map(i64::cast_unsigned),
        })
    ),
    class!("piste_statedump_thread_name", [tid: "tid", name: "name"], |values| Fact::DumpedName {
        tid: values.id(tid)?,
        name: values.text(name),
    }),
    class!(
        "lttng_statedump_process",
        [pid: "pid", command_line: "cmdline", cgroup: "cgroup"],
        |values| Fact::DumpedProcess {
            pid: values.id(pid)?,
            command_line: values.text(command_line),
            cgroup: values.text(cgroup),
        }
    ),
    class!("lttng_statedump_start", [], |_values| Fact::DumpBegin),
    class!("lttng_statedump_end", [], |_values| Fact::DumpEnd),
    class!(
        "lttng_statedump_file_descriptor",
        [pid: "pid", descriptor: "fd", flags: "flags", name: "filename", table: "file_table_address"],
        |values| Fact::DumpedFile {
            owner: match (values.id(pid), values.number(table)) {
                (Some(pid), _) => FileOwner::Process(pid),
                (None, table) => FileOwner::Table(table?.cast_unsigned()),
            },
            descriptor: values.id(descriptor)?,
            flags: values.number(flags),
            name: values.text(name),
        }
    ),
    class!(
        "lttng_statedump_block_device",
        [device: "dev", name: "diskname"],
        |values| Fact::DumpedDevice {
            device: values.number(device)? as u32,
            name: values.text(name),
        }
    ),
];
