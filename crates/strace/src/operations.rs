// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of which one argument says what they do, and what the others mean: fcntl, futex, ioctl.

use piste_syscalls::{Names, Syscall};

use crate::arguments::{address, hex};
use crate::fields::Fields;

/// Those of `fcntl`.
const F_GETFD: i128 = 1;
const F_SETFD: i128 = 2;
const F_GETFL: i128 = 3;
const F_SETFL: i128 = 4;
/// `F_GETLK`, `F_SETLK`, `F_SETLKW`, `F_SETOWN_EX`, `F_GETOWN_EX`, and those of open file descriptions.
const WITH_ADDRESSES: [i128; 8] = [5, 6, 7, 15, 16, 36, 37, 38];
/// `F_DUPFD`, `F_SETOWN`, `F_SETSIG`, `F_DUPFD_CLOEXEC`, `F_SETPIPE_SZ`
const WITH_NUMBERS: [i128; 5] = [0, 8, 10, 1030, 1031];
const FD_CLOEXEC: u64 = 1;
/// `FIONCLEX`, `FIOCLEX`
const WITHOUT_ARGUMENT: [i128; 2] = [0x5450, 0x5451];
/// Of the operations of `futex`, what is beside their flags.
const FUTEX_OPERATION: i128 = 0x7f;

/// The arguments of a call that mean something, by their indices.
pub(crate) fn meant(call: &Syscall, entry: &Fields) -> &'static [usize] {
    const FIRST: [usize; 6] = [0, 1, 2, 3, 4, 5];
    // O_CREAT, __O_TMPFILE
    const MAKES: i128 = 0x40 | 0x40_0000;
    let all = &FIRST[..call.arguments.len().min(FIRST.len())];
    let integer = |name: &str| entry.integer(name);
    match call.program_name {
        // The mode of a file matters only when it is made.
        "open" | "openat" if integer("flags").is_some_and(|flags| flags & MAKES == 0) => &all[..all.len() - 1],
        "fcntl" | "fcntl64" => match integer("cmd") {
            // Those that get something.
            Some(F_GETFD | F_GETFL | 9 | 11 | 1025 | 1032 | 1034) => &all[..2],
            _ => all,
        },
        "ioctl" if integer("cmd").is_some_and(|command| WITHOUT_ARGUMENT.contains(&command)) => &all[..2],
        "futex" => match integer("op").map(|operation| operation & FUTEX_OPERATION) {
            // FUTEX_REQUEUE
            Some(3) => &all[..5],
            // FUTEX_WAIT
            Some(0) => &all[..4],
            // FUTEX_WAKE
            Some(1) => &all[..3],
            // FUTEX_LOCK_PI, FUTEX_LOCK_PI2
            Some(6 | 13) => &[0, 1, 3],
            // FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI
            Some(7 | 8) => &all[..2],
            // FUTEX_WAIT_BITSET
            Some(9) => &[0, 1, 2, 3, 5],
            // FUTEX_WAKE_BITSET
            Some(10) => &[0, 1, 2, 5],
            _ => all,
        },
        // MREMAP_FIXED, MREMAP_DONTUNMAP
        "mremap" if integer("flags").is_some_and(|flags| flags & 6 == 0) => &all[..all.len() - 1],
        _ => all,
    }
}

/// An argument that depends on what the call does.
pub(crate) fn number(call: &Syscall, entry: &Fields, name: &str, value: u64) -> Option<String> {
    let command = entry.integer("cmd");
    match (call.program_name, name) {
        ("fcntl" | "fcntl64", "arg") => Some(match command {
            Some(F_SETFD) => descriptor_flags(value),
            Some(F_SETFL) => file_flags(value)?,
            Some(command) if WITH_ADDRESSES.contains(&command) => address(value.into()),
            Some(command) if WITH_NUMBERS.contains(&command) => value.to_string(),
            _ => hex(value),
        }),
        ("ioctl", "arg") => Some(address(value.into())),
        ("futex", _) => {
            let operation = entry.integer("op")? & FUTEX_OPERATION;
            match (name, operation) {
                // FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET
                ("val3", 9 | 10) if value == u64::from(u32::MAX) => Some("FUTEX_BITSET_MATCH_ANY".to_owned()),
                ("val3", 9 | 10) => Some(hex(value)),
                // FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_CMP_REQUEUE_PI: it is no time, but a number.
                ("utime", 3..=5 | 12) => Some(value.to_string()),
                _ => None,
            }
        }
        ("mmap", "off" | "offset") => Some(hex(value)),
        ("rseq", "rseq_len" | "sig") => Some(hex(value)),
        _ => None,
    }
}

/// The result of a call that tells flags: `0x8001 (flags O_WRONLY|O_LARGEFILE)`.
pub(crate) fn result(call: &Syscall, entry: &Fields, result: i128) -> Option<String> {
    let value = u64::try_from(result).ok()?;
    match (call.program_name, entry.integer("cmd")) {
        ("umask", _) => Some(format!("{value:03o}")),
        ("fcntl" | "fcntl64", Some(F_GETFD)) if value != 0 => {
            Some(format!("{} (flags {})", hex(value), descriptor_flags(value)))
        }
        ("fcntl" | "fcntl64", Some(F_GETFL)) => Some(format!("{} (flags {})", hex(value), file_flags(value)?)),
        _ => None,
    }
}

fn descriptor_flags(value: u64) -> String {
    match value {
        FD_CLOEXEC => "FD_CLOEXEC".to_owned(),
        _ => hex(value),
    }
}

fn file_flags(value: u64) -> Option<String> {
    Some(Names::of("openat", "flags", std::env::consts::ARCH)?.written(value))
}
