// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts that the kernel does not record: they are derived from `/proc`, as it is when the records are read.
//!
//! That is some time after the events, so what a thread changes in between is seen too early, and what has ended before is not known at
//! all, unless it was known from earlier events. Each thread is looked at again after [`GOOD_FOR`].

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::spec::Context;

/// How long what was read of a thread is taken for what it is.
const GOOD_FOR: Duration = Duration::from_millis(100);
/// Threads that are remembered: those of a large machine.
const THREAD_COUNT_MAX: usize = 1 << 16;

/// Characters of a thread's name, and a zero byte.
pub(crate) const NAME_BYTES: usize = 16;

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A number.
    Number(i64),
    /// A name, up to the first zero byte.
    Name([u8; NAME_BYTES]),
}

/// What `/proc` says of threads.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    now: Instant,
    threads: HashMap<i32, Thread>,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            now: Instant::now(),
            threads: HashMap::new(),
        }
    }
}

/// One thread; each file is read when something of it is asked for.
#[derive(Clone, Debug, Default)]
struct Thread {
    status: Read<Status>,
    priorities: Read<(i64, i64)>,
    namespaces: [Read<i64>; 8],
}

/// What a file said, and when it was read.
#[derive(Clone, Debug)]
struct Read<T>(Option<(Instant, Option<T>)>);

impl<T> Default for Read<T> {
    fn default() -> Read<T> {
        Read(None)
    }
}

impl<T> Read<T> {
    /// Reads the file, if that was too long ago. What was known of a thread that has ended stays known.
    fn get(&mut self, now: Instant, read: impl FnOnce() -> Option<T>) -> Option<&T> {
        let is_good = |(at, _): &(Instant, _)| now.duration_since(*at) < GOOD_FOR;
        if !self.0.as_ref().is_some_and(is_good) {
            let earlier = self.0.take().and_then(|(_, earlier)| earlier);
            self.0 = Some((now, read().or(earlier)));
        }
        self.0.as_ref()?.1.as_ref()
    }
}

#[derive(Clone, Debug)]
struct Status {
    name: [u8; NAME_BYTES],
    process: i64,
    parent: i64,
    users: [i64; 3],
    groups: [i64; 3],
}

impl Facts {
    /// Time has passed: what is old is read again.
    pub(crate) fn look_at_clock(&mut self) {
        self.now = Instant::now();
        if self.threads.len() > THREAD_COUNT_MAX {
            self.threads.clear();
        }
    }

    /// What a context of a thread is.
    pub(crate) fn get(&mut self, tid: i32, context: Context) -> Option<Fact> {
        let (now, thread) = (self.now, self.threads.entry(tid).or_default());
        if let Some(index) = NAMESPACES.iter().position(|(namespace, _)| *namespace == context) {
            let path = format!("/proc/{tid}/ns/{}", NAMESPACES[index].1);
            let number = thread.namespaces[index].get(now, || Some(fs::metadata(path).ok()?.ino().cast_signed()));
            return number.copied().map(Fact::Number);
        }
        if let Context::Prio | Context::Nice = context {
            let (priority, nice) = thread.priorities.get(now, || priorities(tid))?;
            return Some(Fact::Number(if context == Context::Prio { *priority } else { *nice }));
        }
        let status = thread.status.get(now, || status(tid))?;
        Some(match context {
            Context::Pid => Fact::Number(status.process),
            Context::Ppid => Fact::Number(status.parent),
            Context::Procname => Fact::Name(status.name),
            Context::Uid => Fact::Number(status.users[0]),
            Context::Euid => Fact::Number(status.users[1]),
            Context::Suid => Fact::Number(status.users[2]),
            Context::Gid => Fact::Number(status.groups[0]),
            Context::Egid => Fact::Number(status.groups[1]),
            Context::Sgid => Fact::Number(status.groups[2]),
            _ => return None,
        })
    }
}

/// With their names in `/proc/TID/ns`.
const NAMESPACES: [(Context, &str); 8] = [
    (Context::CgroupNs, "cgroup"),
    (Context::IpcNs, "ipc"),
    (Context::MntNs, "mnt"),
    (Context::NetNs, "net"),
    (Context::PidNs, "pid"),
    (Context::TimeNs, "time"),
    (Context::UserNs, "user"),
    (Context::UtsNs, "uts"),
];

fn status(tid: i32) -> Option<Status> {
    let text = fs::read(format!("/proc/{tid}/status")).ok()?;
    let line = |key: &str| {
        let mut lines = text.split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b":\t"))
    };
    let numbers = |key: &str| {
        let words = str::from_utf8(line(key)?).ok()?.split_whitespace();
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        numbers
    };
    let three = |key: &str| numbers(key)?.first_chunk().copied();
    let mut name = [0; NAME_BYTES];
    // The kernel writes a backslash and a newline as `\\` and `\n`, which make a name longer.
    let shown = line("Name")?;
    let bytes = shown.len().min(NAME_BYTES - 1);
    name[..bytes].copy_from_slice(&shown[..bytes]);
    Some(Status {
        name,
        process: *numbers("Tgid")?.first()?,
        parent: *numbers("PPid")?.first()?,
        users: three("Uid")?,
        groups: three("Gid")?,
    })
}

/// Priority, as sched_switch has it in traces, and nice value.
fn priorities(tid: i32) -> Option<(i64, i64)> {
    let text = fs::read(format!("/proc/{tid}/stat")).ok()?;
    // The name is in brackets and may have any characters.
    let behind = text.iter().rposition(|byte| *byte == b')')? + 1;
    let mut words = str::from_utf8(&text[behind..]).ok()?.split_whitespace().skip(15);
    let mut number = || words.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(facts: &mut Facts, tid: i32, context: Context) -> Option<i64> {
        match facts.get(tid, context)? {
            Fact::Number(number) => Some(number),
            Fact::Name(_) => None,
        }
    }

    #[test]
    fn this_thread_is_known() {
        let mut facts = Facts::default();
        let pid = std::process::id() as i32;
        std::thread::Builder::new()
            .name("a name\n".into())
            .spawn(move || {
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                assert_eq!(number(&mut facts, tid, Context::Pid), Some(pid.into()));
                let user = rustix::process::geteuid().as_raw();
                assert_eq!(number(&mut facts, tid, Context::Euid), Some(user.into()));
                assert!(number(&mut facts, tid, Context::Ppid).is_some_and(|parent| parent != i64::from(pid)));
                let nice = number(&mut facts, tid, Context::Nice).expect("a nice value");
                assert_eq!(number(&mut facts, tid, Context::Prio), Some(nice + 20));
                let namespace = fs::metadata("/proc/thread-self/ns/uts").expect("a namespace").ino();
                assert_eq!(number(&mut facts, tid, Context::UtsNs), Some(namespace.cast_signed()));
                let Some(Fact::Name(name)) = facts.get(tid, Context::Procname) else {
                    panic!("no name");
                };
                assert_eq!(&name[..9], b"a name\\n\0");
            })
            .expect("a thread")
            .join()
            .expect("what was said");
    }

    #[test]
    fn of_a_thread_that_has_ended_what_was_known_stays() {
        let mut facts = Facts::default();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let tid = child.id() as i32;
        let nice = number(&mut facts, tid, Context::Nice);
        assert!(nice.is_some());
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        facts.now += 2 * GOOD_FOR;
        assert_eq!(number(&mut facts, tid, Context::Nice), nice);
        // Of this it was not asked in time.
        assert_eq!(number(&mut facts, tid, Context::Pid), None);
        assert_eq!(number(&mut facts, tid, Context::NetNs), None);
    }
}
