// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls by number: their names, and the names and types of their arguments.
//!
//! A record of `raw_syscalls` has a number and six words; this tells what they are. The tables are data, which `tables` reads. Here the types of
//! their arguments become integers, and it is decided how those are shown. What arguments point to is data too: `data/pointees.tsv`.

mod classes;
mod constants;
pub mod copies;
pub mod filters;
mod numbers;
mod pointees;
mod tables;

use piste_ctf::{Base, Element};

pub use classes::Class;
pub use constants::Names;
pub use numbers::{error_name, signal_name};
pub use pointees::{Count, Pointee, What};

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// The kernel's name for it, which traces carry: `newfstat`.
    pub name: &'static str,
    /// The name that programs know: `fstat`. Mostly the same.
    pub program_name: &'static str,
    /// Its number in its table.
    pub number: u32,
    /// Its arguments: argument `i` is word `i` of the record. At most six.
    pub arguments: Vec<Argument>,
    /// What they point to, where that is known.
    pub pointees: Vec<Pointee>,
}

impl Syscall {
    /// Whether an argument is a descriptor of the thread that calls.
    pub fn takes_descriptor(&self, index: usize) -> bool {
        const OTHERS: [&str; 5] = ["fd_in", "fd_out", "fdin", "fdout", "fildes"];
        let Argument { name, type_text, .. } = self.arguments[index];
        // The last number of close_range need not be open, and pidfd_getfd takes a descriptor of another process.
        let is_other = name == "max_fd" || self.program_name == "pidfd_getfd" && name == "fd";
        let is_named_so = name.ends_with("fd") || OTHERS.contains(&name);
        is_named_so && !is_other && !is_address(type_text)
    }
}

/// An argument of a system call. Texts and structures are passed by address, and the address is what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name: `filename`.
    pub name: &'static str,
    /// Its type as C writes it: `const char *`.
    pub type_text: &'static str,
    /// The integer that the low bits of its word are.
    pub element: Element,
    /// How it is shown: addresses and flags are hex, modes of files octal.
    pub base: Base,
}

/// Which numbers a thread calls the kernel by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// Those of 64-bit programs.
    Native,
    /// Those of 32-bit programs.
    Compat,
}

/// A kind of processor, which decides what the numbers of calls mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture(&'static str);

impl Architecture {
    /// That of this machine.
    pub const HERE: Architecture = Architecture(std::env::consts::ARCH);

    /// By its name: `x86_64`, `aarch64`.
    pub const fn named(name: &'static str) -> Architecture {
        Architecture(name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Whether there are tables of its calls. Where there are none, no call is known by its name. For RISC-V, there is none of
    /// 32-bit programs.
    pub fn has_tables(self) -> bool {
        tables::calls(self, Table::Native).is_some()
    }

    /// The call with this number; `None` when the table does not know it.
    pub fn by_number(self, table: Table, number: u32) -> Option<&'static Syscall> {
        let calls = tables::calls(self, table)?;
        let index = *calls.by_number.get(number as usize)?;
        calls.all.get(usize::from(index))
    }

    /// The call with this name, the kernel's or the one that programs know.
    pub fn by_name(self, table: Table, name: &str) -> Option<&'static Syscall> {
        let calls = tables::calls(self, table)?;
        calls.by_name.get(name).map(|&index| &calls.all[usize::from(index)])
    }

    /// The calls of a table, in the order of their numbers.
    pub fn all(self, table: Table) -> impl Iterator<Item = &'static Syscall> {
        tables::calls(self, table).into_iter().flat_map(|calls| &calls.all)
    }
}

/// `const char *filename`
fn argument(text: &'static str, table: Table) -> Option<Argument> {
    let (type_text, name) = text.split_at(text.rfind([' ', '*'])? + 1);
    let type_text = type_text.trim_end();
    let element = element(type_text, table)?;
    Some(Argument {
        name,
        type_text,
        element,
        base: base(type_text, name),
    })
}

/// The integer that a type is in calls of a table.
fn element(type_text: &str, table: Table) -> Option<Element> {
    if is_address(type_text) {
        return Some(word(table, false));
    }
    Some(match type_text {
        "int" | "pid_t" | "clockid_t" | "timer_t" | "mqd_t" | "key_t" | "key_serial_t" | "rwf_t" | "__s32" => {
            Element::Int32
        }
        "unsigned" | "unsigned int" | "u32" | "__u32" | "uid_t" | "gid_t" | "qid_t" | "enum landlock_rule_type" => {
            Element::Uint32
        }
        "umode_t" => Element::Uint16,
        "loff_t" => Element::Int64,
        "__u64" => Element::Uint64,
        "long" | "off_t" => word(table, true),
        "unsigned long" | "size_t" | "aio_context_t" | "old_sigset_t" => word(table, false),
        _ => return None,
    })
}

fn word(table: Table, is_signed: bool) -> Element {
    match (table, is_signed) {
        (Table::Native, true) => Element::Int64,
        (Table::Native, false) => Element::Uint64,
        (Table::Compat, true) => Element::Int32,
        (Table::Compat, false) => Element::Uint32,
    }
}

fn is_address(type_text: &str) -> bool {
    type_text.ends_with('*') || matches!(type_text, "cap_user_header_t" | "cap_user_data_t" | "uintptr_t")
}

fn base(type_text: &str, name: &str) -> Base {
    const ADDRESSES: [&str; 10] = [
        "addr", "start", "brk", "newsp", "tls", "old_addr", "new_addr", "ctx_id", "ctx", "arg2",
    ];
    let is_address = is_address(type_text) || type_text == "unsigned long" && ADDRESSES.contains(&name);
    let is_mask = name.ends_with("flags") || name.ends_with("mask") || matches!(name, "prot" | "flag");
    match type_text {
        "umode_t" => Base::Octal,
        _ if is_address || is_mask => Base::Hex,
        _ => Base::Decimal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: Architecture = Architecture::named("x86_64");
    const ARM64: Architecture = Architecture::named("aarch64");
    const RISCV64: Architecture = Architecture::named("riscv64");

    /// `NUMBER NAME (ELEMENT NAME, ..)`
    fn said(call: Option<&Syscall>) -> String {
        let Some(call) = call else {
            return "none".to_owned();
        };
        let arguments: Vec<_> = call
            .arguments
            .iter()
            .map(|argument| {
                let base = match argument.base {
                    Base::Decimal => "",
                    Base::Hex => "0x",
                    Base::Octal => "0",
                };
                format!("{:?} {base}{}", argument.element, argument.name)
            })
            .collect();
        format!("{} {} ({})", call.number, call.name, arguments.join(", "))
    }

    #[test]
    fn numbers_have_calls() {
        use Table::{Compat, Native};
        for (table, number, expected) in [
            (Native, 0, "0 read (Uint32 fd, Uint64 0xbuf, Uint64 count)"),
            (
                Native,
                257,
                "257 openat (Int32 dfd, Uint64 0xfilename, Int32 0xflags, Uint16 0mode)",
            ),
            (Native, 5, "5 newfstat (Uint32 fd, Uint64 0xstatbuf)"),
            (
                Native,
                9,
                "9 mmap (Uint64 0xaddr, Uint64 len, Int32 0xprot, Int32 0xflags, Int32 fd, Int64 offset)",
            ),
            (Native, 57, "57 fork ()"),
            (Native, 335, "335 uretprobe ()"),
            (Compat, 5, "5 open (Uint32 0xfilename, Int32 0xflags, Uint16 0mode)"),
            (
                Compat,
                180,
                "180 pread64 (Uint32 fd, Uint32 0xbuf, Uint32 count, Uint32 pos_low, Uint32 pos_high)",
            ),
            (Native, 180, "none"),
            (Native, 400, "none"),
            (Native, u32::MAX, "none"),
            (Compat, 0x4000_0000, "none"),
        ] {
            assert_eq!(said(X86_64.by_number(table, number)), expected, "{table:?} {number}");
        }
    }

    #[test]
    fn names_have_calls() {
        let number = |table, name| X86_64.by_name(table, name).map(|call| call.number);
        assert_eq!(number(Table::Native, "newfstat"), Some(5));
        assert_eq!(number(Table::Native, "fstat"), Some(5));
        assert_eq!(number(Table::Native, "umount2"), Some(166));
        assert_eq!(number(Table::Compat, "umount"), Some(52));
        assert_eq!(number(Table::Native, "waitpid"), None);
        assert_eq!(number(Table::Compat, "waitpid"), Some(7));
    }

    #[test]
    fn descriptors_are_known_by_their_names() {
        for (call, expected) in [
            ("read", "fd"),
            ("openat", "dfd"),
            ("renameat2", "olddfd newdfd"),
            ("dup2", "oldfd newfd"),
            ("dup", "fildes"),
            ("mmap", "fd"),
            ("splice", "fd_in fd_out"),
            ("sendfile", "out_fd in_fd"),
            ("tee", "fdin fdout"),
            ("epoll_ctl", "epfd fd"),
            ("timerfd_settime", "ufd"),
            ("close_range", "fd"),
            ("pidfd_getfd", "pidfd"),
            ("poll", ""),
            ("pipe2", ""),
            ("getpid", ""),
        ] {
            let call = X86_64.by_name(Table::Native, call).expect("it is in the table");
            let found = (0..call.arguments.len()).filter(|index| call.takes_descriptor(*index));
            let names: Vec<&str> = found.map(|index| call.arguments[index].name).collect();
            assert_eq!(names.join(" "), expected, "{}", call.name);
        }
    }

    #[test]
    fn numbers_of_arm_and_risc_v_have_calls() {
        use Table::{Compat, Native};
        const CLONE: &str = "220 clone (Uint64 0xclone_flags, Uint64 0xnewsp, Uint64 0xparent_tidptr, Uint64 0xtls, Uint64 0xchild_tidptr)";
        for (architecture, table, number, expected) in [
            (ARM64, Native, 63, "63 read (Uint32 fd, Uint64 0xbuf, Uint64 count)"),
            (ARM64, Native, 80, "80 newfstat (Uint32 fd, Uint64 0xstatbuf)"),
            (
                ARM64,
                Native,
                223,
                "223 fadvise64_64 (Int32 fd, Int64 offset, Int64 len, Int32 advice)",
            ),
            (ARM64, Native, 220, CLONE),
            (RISCV64, Native, 220, CLONE),
            (ARM64, Native, 92, "92 arm64_personality (Uint32 personality)"),
            (RISCV64, Native, 92, "92 personality (Uint32 personality)"),
            (
                RISCV64,
                Native,
                259,
                "259 riscv_flush_icache (Uint64 0xstart, Uint64 0xend, Uint64 0xflags)",
            ),
            (ARM64, Native, 259, "none"),
            (RISCV64, Native, 38, "none"),
            (
                ARM64,
                Compat,
                5,
                "5 open (Uint32 0xfilename, Int32 0xflags, Uint16 0mode)",
            ),
            (
                ARM64,
                Compat,
                285,
                "285 accept (Int32 fd, Uint32 0xupeer_sockaddr, Uint32 0xupeer_addrlen)",
            ),
            // 64-bit arguments begin at an even word.
            (
                ARM64,
                Compat,
                180,
                "180 pread64 (Uint32 fd, Uint32 0xbuf, Uint32 count, Uint32 padding, Uint32 pos_low, Uint32 pos_high)",
            ),
            (
                ARM64,
                Compat,
                341,
                "341 sync_file_range2 (Int32 fd, Uint32 0xflags, Uint32 offset_low, Uint32 offset_high, Uint32 nbytes_low, Uint32 nbytes_high)",
            ),
            // set_tls
            (ARM64, Compat, 0xf_0005, "none"),
        ] {
            let call = architecture.by_number(table, number);
            assert_eq!(said(call), expected, "{architecture:?} {table:?} {number}");
        }
        assert_eq!(ARM64.by_name(Native, "open"), None);
        let number = |table, name| ARM64.by_name(table, name).map(|call| call.number);
        assert_eq!(number(Native, "personality"), Some(92));
        assert_eq!(number(Compat, "arm_sync_file_range"), Some(341));
    }

    #[test]
    fn numbers_of_other_processors_have_no_names() {
        let other = Architecture::named("loongarch64");
        assert!(!other.has_tables() && [X86_64, ARM64, RISCV64].iter().all(|known| known.has_tables()));
        for (other, table) in [(other, Table::Native), (other, Table::Compat), (RISCV64, Table::Compat)] {
            assert_eq!(other.by_number(table, 0), None);
            assert_eq!(other.by_name(table, "read"), None);
            assert_eq!(other.all(table).count(), 0);
        }
    }
}
