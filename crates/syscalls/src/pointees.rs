// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the arguments of system calls point to: `data/pointees.tsv`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointee {
    /// Index of the argument.
    pub argument: usize,
    /// The kernel reads it: it is there when the call begins.
    pub is_input: bool,
    /// The kernel writes it: it is there when the call has ended.
    pub is_output: bool,
    /// What is there.
    pub what: What,
    /// How much of it.
    pub count: Count,
}

/// What an argument points to. Structures have the names that C programs know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The path of a file.
    Path,
    /// Another text that ends with a zero byte.
    Text,
    /// Pointers to texts, up to a null pointer: `argv`.
    Texts,
    /// Bytes without a meaning for the kernel.
    Bytes,
    /// A path without a zero byte, which the kernel writes: what a symbolic link points to.
    Target,
    /// `struct sockaddr`.
    Address,
    /// A signed integer of so many bytes.
    Integer {
        /// 4 or 8.
        bytes: u8,
    },
    /// An integer as long as an address.
    Word,
    /// Two ints: descriptors.
    IntPair,
    /// `struct pollfd`.
    PollFd,
    /// `struct epoll_event`.
    EpollEvent {
        /// Nothing is between its members, as on x86. Elsewhere, 4 bytes are.
        is_packed: bool,
    },
    /// `fd_set`, of as many descriptors as the count says.
    FdSet,
    /// `sigset_t`, of as many bytes as the count says.
    SignalSet,
    /// `struct iovec`: parts of an address space.
    IoVector,
    /// `struct iovec`, with what the kernel reads there.
    SourceVector,
    /// `struct iovec`, with what the kernel writes there.
    TargetVector,
    /// `struct msghdr`.
    Message,
    /// `struct mmsghdr`.
    Messages,
    /// `struct timespec`.
    Timespec,
    /// Two of them: when a file was read, and changed.
    TimespecPair,
    /// `struct timeval`.
    Timeval,
    /// Two of them.
    TimevalPair,
    /// `struct itimerspec`.
    TimerSpec,
    /// `struct itimerval`.
    TimerVal,
    /// `struct rlimit`.
    Limit,
    /// `struct open_how`.
    OpenHow,
}

/// How much there is where an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One.
    One,
    /// As many as the argument with this index says.
    Argument(usize),
    /// As many as the int says that the argument with this index points to.
    AtArgument(usize),
}

/// What the arguments with these names, of the call that programs know by `program_name`, point to.
pub(crate) fn of(program_name: &str, names: &[&str], packs_epoll_events: bool) -> Vec<Pointee> {
    static ALL: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let lines = include_str!("../data/pointees.tsv").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split_once('\t')).collect()
    });
    let texts = ALL.get(program_name).into_iter().flat_map(|line| line.split('\t'));
    texts
        .filter_map(|text| pointee(text, names, packs_epoll_events))
        .collect()
}

/// `buf out bytes[2]`
fn pointee(text: &str, names: &[&str], packs_epoll_events: bool) -> Option<Pointee> {
    let mut words = text.split(' ');
    let (name, way, what) = (words.next()?, words.next()?, words.next()?);
    let (what, count) = what.split_once('[').unwrap_or((what, ""));
    Some(Pointee {
        argument: names.iter().position(|other| *other == name)?,
        is_input: way.starts_with("in"),
        is_output: way.ends_with("out"),
        what: known(what, packs_epoll_events)?,
        count: counted(count)?,
    })
}

/// `2]`, `*2]`
fn counted(text: &str) -> Option<Count> {
    let text = text.strip_suffix(']').unwrap_or(text);
    if text.is_empty() {
        return Some(Count::One);
    }
    Some(match text.strip_prefix('*') {
        Some(index) => Count::AtArgument(index.parse().ok()?),
        None => Count::Argument(text.parse().ok()?),
    })
}

fn known(what: &str, packs_epoll_events: bool) -> Option<What> {
    Some(match what {
        "path" => What::Path,
        "text" => What::Text,
        "texts" => What::Texts,
        "bytes" => What::Bytes,
        "target" => What::Target,
        "address" => What::Address,
        "int32" => What::Integer { bytes: 4 },
        "int64" => What::Integer { bytes: 8 },
        "word" => What::Word,
        "int_pair" => What::IntPair,
        "pollfd" => What::PollFd,
        "epoll_event" => What::EpollEvent {
            is_packed: packs_epoll_events,
        },
        "fd_set" => What::FdSet,
        "sigset" => What::SignalSet,
        "iovec" => What::IoVector,
        "source_iovec" => What::SourceVector,
        "target_iovec" => What::TargetVector,
        "msghdr" => What::Message,
        "mmsghdr" => What::Messages,
        "timespec" => What::Timespec,
        "timespec_pair" => What::TimespecPair,
        "timeval" => What::Timeval,
        "timeval_pair" => What::TimevalPair,
        "itimerspec" => What::TimerSpec,
        "itimerval" => What::TimerVal,
        "rlimit" => What::Limit,
        "open_how" => What::OpenHow,
        _ => return None,
    })
}
