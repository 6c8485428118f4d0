// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls. The name of the call is in that of the class.

use std::ptr;

use super::{Class, class};
use crate::facts::fact::{Arguments, Fact, Found, Futex, Peer};
use crate::facts::values::Values;
use crate::names::{Name, Names};

pub(super) static CLASSES: [Class; 1] = [
    // Traces of old do not say of which call.
    class!("exit_syscall", [result: "ret"], |values| Fact::CallExit {
        call: None,
        result: values.number(result).unwrap_or(0),
        found: Found::default(),
    }),
];

/// Of a system call that has to do with files.
static ENTRY: Class = class!(
    "",
    [
        descriptor: "fd|fildes|oldfd|in_fd|fd_in|fdin|ufd|dfd",
        other: "newfd|out_fd|fd_out|fdout|max_fd",
        flags: "flags|type|cmd|unshare_flags",
        value: "family|arg",
        path: "filename|pathname",
    ],
    |values, call, _names| Fact::CallEntry {
        call,
        arguments: Arguments {
            descriptor: values.id(descriptor),
            other: values.id(other),
            flags: values.number(flags),
            value: values.number(value),
            path: values.text(path),
            ..Arguments::default()
        },
    }
);

/// A system call that connects a socket.
static CONNECT_ENTRY: Class = class!(
    "",
    [descriptor: "fd", port: "dport", v4: "v4addr", v6: "v6addr", path: "sun_path"],
    |values, call, _names| Fact::CallEntry {
        call,
        arguments: Arguments {
            descriptor: values.id(descriptor),
            peer: Some(Peer {
                port: values.number(port).unwrap_or(0) as u16,
                v4: values.elements(v4),
                v6: values.elements(v6),
                path: values.text(path),
            }),
            ..Arguments::default()
        },
    }
);

/// Of one whose arguments do not matter.
static PLAIN_ENTRY: Class = class!("", [], |_values, call, _names| Fact::CallEntry {
    call,
    arguments: Arguments::default(),
});

static FUTEX_ENTRY: Class = class!(
    "",
    [address: "uaddr", operation: "op", value: "val"],
    |values, call, names| Fact::CallEntry {
        call,
        arguments: Arguments {
            futex: values.number(address).map(|address| {
                Futex::new(
                    names.text(call),
                    address.cast_unsigned(),
                    values.number(operation),
                    values.number(value),
                )
            }),
            ..Arguments::default()
        },
    }
);

static EXIT: Class = class!("", [result: "ret"], |values, call, _names| Fact::CallExit {
    call: Some(call),
    result: values.number(result).unwrap_or(0),
    found: Found::default(),
});

/// Of a system call that opens a file or changes to a folder: its path, if that was not in memory when the call began.
static PATH_EXIT: Class = class!("", [result: "ret", path: "filename|pathname"], |values, call, _names| Fact::CallExit {
    call: Some(call),
    result: values.number(result).unwrap_or(0),
    found: Found {
        path: values.text(path),
        peer: None,
    },
});

/// Of one that accepts a connection: where it comes from.
static ACCEPT_EXIT: Class = class!(
    "",
    [result: "ret", port: "sport", v4: "v4addr", v6: "v6addr", path: "sun_path"],
    |values, call, _names| Fact::CallExit {
        call: Some(call),
        result: values.number(result).unwrap_or(0),
        found: Found {
            path: &[],
            peer: Some(Peer {
                port: values.number(port).unwrap_or(0) as u16,
                v4: values.elements(v4),
                v6: values.elements(v6),
                path: values.text(path),
            }),
        },
    }
);

/// The class of a call's entries or exits.
pub(super) fn of(class: &str) -> Option<(&'static Class, String)> {
    let (compat, native) = match class.strip_prefix("compat_") {
        Some(native) => ("compat_", native),
        None => ("", class),
    };
    // Entries have the names of the kernel's functions in traces of old.
    let entry = ["syscall_entry_", "sys_"];
    let (known, call) = match entry.iter().find_map(|prefix| native.strip_prefix(prefix)) {
        Some(call) if is_futex(call) => (&FUTEX_ENTRY, call),
        Some("connect") => (&CONNECT_ENTRY, "connect"),
        Some(call) if WITH_ARGUMENTS.binary_search(&call).is_ok() => (&ENTRY, call),
        Some(call) => (&PLAIN_ENTRY, call),
        None => {
            let call = native.strip_prefix("syscall_exit_")?;
            match call {
                "open" | "openat" | "openat2" | "creat" | "chdir" => (&PATH_EXIT, call),
                "accept" | "accept4" => (&ACCEPT_EXIT, call),
                _ => (&EXIT, call),
            }
        }
    };
    Some((known, format!("{compat}{call}")))
}

/// The class is one of entries.
pub(super) fn is_entry(class: &Class) -> bool {
    let entries = [&ENTRY, &CONNECT_ENTRY, &PLAIN_ENTRY, &FUTEX_ENTRY];
    entries.into_iter().any(|entry| ptr::eq(entry, class))
}

/// System calls that are about one futex.
fn is_futex(call: &str) -> bool {
    matches!(call, "futex" | "futex_time64" | "futex_wait" | "futex_wake")
}

/// System calls of which the arguments matter. Of the others nothing is decoded.
const WITH_ARGUMENTS: [&str; 66] = [
    "accept",
    "accept4",
    "bind",
    "chdir",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "fchdir",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "fsync",
    "getpeername",
    "getsockname",
    "getsockopt",
    "inotify_init1",
    "ioctl",
    "listen",
    "memfd_create",
    "open",
    "openat",
    "openat2",
    "pread",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "send",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "signalfd",
    "signalfd4",
    "socket",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "timerfd_create",
    "timerfd_settime",
    "unshare",
    "vmsplice",
    "write",
    "writev",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fact::FutexOperation;

    #[test]
    fn calls_with_arguments_can_be_searched() {
        assert!(WITH_ARGUMENTS.is_sorted());
        let fields = |class: &str| of(class).map(|(class, _)| class.fields.len());
        assert_eq!(fields("syscall_entry_openat"), Some(ENTRY.fields.len()));
        assert_eq!(fields("syscall_entry_getpid"), Some(0));
        for (class, expected) in [
            ("syscall_entry_openat", true),
            ("syscall_entry_futex", true),
            ("syscall_entry_connect", true),
            ("sys_getpid", true),
            ("syscall_exit_openat", false),
        ] {
            assert_eq!(of(class).map(|(class, _)| is_entry(class)), Some(expected), "{class}");
        }
    }

    #[test]
    fn locks_are_told_from_what_else_is_made_of_futexes() {
        for (operation, value, expected) in [
            (0x86, 0, Some(true)),
            (0x8d, 0, Some(true)),
            (0x8b, 7, Some(false)),
            // Of libraries: a mutex, one that knows its owner, a semaphore, a condition variable that has counted to 6.
            (0x80, 2, None),
            (0x80, 0x8000_0123, None),
            (0x189, 0, Some(false)),
            (0x189, 6, Some(false)),
        ] {
            let futex = Futex::new("futex", 64, Some(operation), Some(value));
            assert_eq!(futex.is_lock, expected, "{operation:#x} {value:#x}");
        }
        assert_eq!(Futex::new("futex", 64, Some(0), None).is_lock, None);
    }

    #[test]
    fn futexes_are_waited_for_or_woken() {
        for (call, operation, expected) in [
            ("futex", Some(0x80), FutexOperation::Wait),
            ("futex", Some(0x189), FutexOperation::Wait),
            ("futex", Some(6), FutexOperation::Wait),
            ("futex", Some(0x81), FutexOperation::Wake),
            ("futex", Some(7), FutexOperation::Wake),
            ("futex", Some(8), FutexOperation::Other),
            ("futex", None, FutexOperation::Other),
            ("futex_wait", None, FutexOperation::Wait),
            ("futex_wake", None, FutexOperation::Wake),
        ] {
            assert_eq!(FutexOperation::new(call, operation), expected, "{call} {operation:?}");
        }
    }
}
