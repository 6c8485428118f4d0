// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables have the names and numbers of the kernel's headers, which Debian has for every architecture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use piste_syscalls::{Architecture, Table};

/// The headers of Linux 6.1 have smaller numbers than this. Newer ones add to them.
const NEWER_NUMBERS: u32 = 451;
/// Calls with smaller numbers that they lack.
const NEWER_CALLS: [&str; 3] = ["uretprobe", "uprobe", "riscv_hwprobe"];
/// No kernel since 5.10 implements them, but for bdflush, which did nothing until 5.15.
const LEFT_OUT: [&str; 30] = [
    "_sysctl",
    "afs_syscall",
    "bdflush",
    "break",
    "create_module",
    "epoll_ctl_old",
    "epoll_wait_old",
    "ftime",
    "get_kernel_syms",
    "get_thread_area",
    "getpmsg",
    "gtty",
    "idle",
    "lock",
    "mpx",
    "nfsservctl",
    "pciconfig_iobase",
    "pciconfig_read",
    "pciconfig_write",
    "prof",
    "profil",
    "putpmsg",
    "query_module",
    "security",
    "set_thread_area",
    "stty",
    "tuxcall",
    "ulimit",
    "uselib",
    "vserver",
];
/// Limits of numbers.
const NO_CALLS: [&str; 5] = [
    "arch_specific_syscall",
    "syscalls",
    "SYSCALL_BASE",
    "OABI_SYSCALL_BASE",
    "SYSCALL_MASK",
];

/// Compares a table with a header, which is in one of the folders.
fn check(architecture: &'static str, table: Table, header: &str, folders: [&str; 2], define: &str) {
    let Some(folder) = folders
        .into_iter()
        .find(|folder| Path::new(folder).join(header).exists())
    else {
        println!("skipped: there is no {header} in {}", folders.join(" or "));
        return;
    };
    let of = format!("{architecture} {table:?}");
    let architecture = Architecture::named(architecture);
    let numbers = numbers(folder, header, define);
    assert!(numbers.len() > 300, "{of}: {} numbers", numbers.len());
    let last = architecture.all(table).last().map_or(0, |call| call.number);
    for (name, number) in &numbers {
        let call = architecture.by_number(table, *number);
        let is_same = call.is_some_and(|call| [call.name, call.program_name].contains(&name.as_str()));
        assert!(
            is_same || *number > last || call.is_none() && LEFT_OUT.contains(&name.as_str()),
            "{of}: {name} is {number} in the header, and this in the table: {call:?}"
        );
    }
    for call in architecture.all(table) {
        let is_newer = call.number >= NEWER_NUMBERS || NEWER_CALLS.contains(&call.name);
        let known = numbers.get(call.program_name);
        assert!(
            known == Some(&call.number) || known.is_none() && is_newer,
            "{of}: {known:?} in the header is {} in the table: {call:?}",
            call.number
        );
    }
}

/// The numbers by the names that programs use.
fn numbers(folder: &str, header: &str, define: &str) -> BTreeMap<String, u32> {
    let mut preprocessor = Command::new("cc");
    preprocessor.args(["-E", "-dM", "-nostdinc", "-x", "c", define, "-include", header]);
    preprocessor.args(["-I", folder, "-I", "/usr/include", "/dev/null"]);
    let output = preprocessor.output().expect("the tests need a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the header is text");
    let definition = |line| str::strip_prefix(line, "#define ")?.split_once(' ');
    let known: BTreeMap<&str, &str> = text.lines().filter_map(definition).collect();
    let calls = known
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("__NR_")?, value)));
    let calls = calls.filter(|(name, _)| !NO_CALLS.contains(name));
    calls
        .filter_map(|(name, value)| Some((name.to_owned(), value_of(value, &known)?)))
        .collect()
}

/// `(__NR_SYSCALL_BASE + 5)`, `__NR3264_fstat`, `257`
fn value_of(text: &str, known: &BTreeMap<&str, &str>) -> Option<u32> {
    let text = text.trim_matches(['(', ')']);
    text.split('+').map(str::trim).try_fold(0, |sum, part| {
        let number = match part.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => part.parse().ok(),
        };
        Some(sum + number.or_else(|| value_of(known.get(part)?, known))?)
    })
}

#[test]
fn numbers_of_x86_are_those_of_the_headers() {
    let folders = ["/usr/include/x86_64-linux-gnu", "/usr/lib/linux/uapi/x86"];
    check("x86_64", Table::Native, "asm/unistd_64.h", folders, "-D__x86_64__");
    check("x86_64", Table::Compat, "asm/unistd_32.h", folders, "-D__i386__");
}

#[test]
fn numbers_of_arm_are_those_of_the_headers() {
    let folders = ["/usr/aarch64-linux-gnu/include", "/usr/lib/linux/uapi/arm64"];
    check("aarch64", Table::Native, "asm/unistd.h", folders, "-D__aarch64__");
    let folders = ["/usr/arm-linux-gnueabihf/include", "/usr/lib/linux/uapi/arm"];
    check("aarch64", Table::Compat, "asm/unistd.h", folders, "-D__ARM_EABI__");
}

#[test]
fn numbers_of_risc_v_are_those_of_the_headers() {
    let folders = ["/usr/riscv64-linux-gnu/include", "/usr/lib/linux/uapi/riscv"];
    check("riscv64", Table::Native, "asm/unistd.h", folders, "-D__riscv_xlen=64");
}
