// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines, from events in the order of time.

use std::collections::HashMap;
use std::io::Write;

use piste_syscalls::{Architecture, Syscall, Table, error_name};

use crate::arguments::{Seen, address, is_late, signal};
use crate::descriptors::{Decoder, Descriptors};
use crate::fields::{Fields, Value};
use crate::operations::{self, meant};

/// Where results begin, unless a line is longer.
const RESULT_COLUMN: usize = 40;
/// The kernel's errors are smaller.
pub(crate) const ERRORS: i128 = 4096;
/// What does not end a program without a handler.
const HARMLESS: [&str; 8] = [
    "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH",
];
/// Names of the errors that a program never sees: the call begins again.
const RESTARTS: [(i128, &str, &str); 4] = [
    (512, "ERESTARTSYS", "To be restarted if SA_RESTART is set"),
    (513, "ERESTARTNOINTR", "To be restarted"),
    (514, "ERESTARTNOHAND", "To be restarted if no handler"),
    (516, "ERESTART_RESTARTBLOCK", "Interrupted by signal"),
];

/// How times are shown at the beginning of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Not at all.
    #[default]
    None,
    /// `09:41:07`
    Seconds,
    /// `09:41:07.123456`
    Microseconds,
    /// `1795340467.123456`
    Epoch,
    /// Since the line before.
    Relative,
}

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Times of events.
    pub times: TimeFormat,
    /// How long each call took.
    pub durations: bool,
    /// Texts are cut here.
    pub text_bytes: usize,
    /// Whether each line begins with the thread.
    pub threads: bool,
    /// Seconds to add to the time since 1970 for the local time of day.
    pub zone_seconds: i64,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Nanoseconds since 1970, or since the clock's origin.
    pub ns: i64,
    /// The thread on which it happened.
    pub tid: i32,
    /// `syscall_entry_openat`
    pub name: &'a str,
    /// Its fields.
    pub fields: &'a Fields,
}

impl<'e> Event<'e> {
    /// The kernel's name of the system call of which it is the entry or the exit.
    pub fn call(&self) -> Option<&'e str> {
        call_of(self.name).map(|(_, _, name)| name)
    }
}

/// Prints lines.
#[derive(Debug)]
pub struct Printer {
    options: Options,
    /// By thread: the call that it is in.
    open: HashMap<i32, Open>,
    /// The thread whose line has no end so far.
    unfinished: Option<i32>,
    /// Bytes of that line.
    column: usize,
    /// Of the line before.
    last_ns: Option<i64>,
    /// By thread: with what its process said that it ends.
    exit_status: HashMap<i32, i128>,
    killed_by: HashMap<i32, i128>,
}

/// A call that has begun.
#[derive(Debug)]
struct Open {
    name: String,
    call: Option<&'static Syscall>,
    entry: Fields,
    entered_ns: i64,
    /// Arguments that are printed.
    printed: usize,
    /// And what is between the last one and the next.
    is_separated: bool,
}

/// What the name of an event says.
pub(crate) enum Side {
    Entry,
    Exit,
}

impl Printer {
    /// One that has printed nothing.
    pub fn new(options: Options) -> Printer {
        Printer {
            options,
            open: HashMap::new(),
            unfinished: None,
            column: 0,
            last_ns: None,
            exit_status: HashMap::new(),
            killed_by: HashMap::new(),
        }
    }

    /// Appends what an event says: whole lines, or the beginning or the end of one.
    pub fn event(&mut self, event: &Event<'_>, descriptors: &dyn Descriptors, out: &mut Vec<u8>) {
        let decoder = Decoder {
            tid: event.tid,
            descriptors,
        };
        match call_of(event.name) {
            Some((Side::Entry, table, name)) => self.entry(event, table, name, decoder, out),
            Some((Side::Exit, table, name)) => self.exit(event, table, name, decoder, out),
            None => match event.name {
                "signal_deliver" => self.signal(event, out),
                "sched_process_exit" => self.end(event, out),
                _ => {}
            },
        }
    }

    /// Prints nothing of an event, and remembers what later lines need of it.
    pub fn note(&mut self, event: &Event<'_>) {
        let call = call_of(event.name);
        if let (Some((Side::Entry, _, "exit_group")), Some(status)) = (call, event.fields.integer("error_code")) {
            self.exit_status.insert(event.tid, status);
        }
    }

    /// Appends the end of the last line.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.interrupt(out);
    }

    fn entry(&mut self, event: &Event<'_>, table: Table, name: &str, decoder: Decoder<'_>, out: &mut Vec<u8>) {
        self.interrupt(out);
        let call = Architecture::HERE.by_name(table, name);
        self.note(event);
        let mut open = Open {
            name: call.map_or(name, |call| call.program_name).to_owned(),
            call,
            entry: event.fields.clone(),
            entered_ns: event.ns,
            printed: 0,
            is_separated: true,
        };
        self.begin_line(event, out);
        self.append(out, &format!("{}(", open.name));
        let text = arguments(&mut open, None, decoder, self.options.text_bytes);
        self.append(out, &text);
        self.open.insert(event.tid, open);
        self.unfinished = Some(event.tid);
    }

    fn exit(&mut self, event: &Event<'_>, table: Table, name: &str, decoder: Decoder<'_>, out: &mut Vec<u8>) {
        let call = Architecture::HERE.by_name(table, name);
        let own_name = call.map_or(name, |call| call.program_name);
        let open = self.open.remove(&event.tid).filter(|open| open.name == own_name);
        if self.unfinished != Some(event.tid) || open.is_none() {
            self.interrupt(out);
            self.begin_line(event, out);
            self.append(out, &format!("<... {own_name} resumed>"));
        }
        self.unfinished = None;
        let result = event.fields.integer("ret");
        let mut entered_ns = None;
        let mut special = None;
        if let Some(mut open) = open {
            let found = call.zip(result);
            special = found.and_then(|(call, result)| operations::result(call, &open.entry, result));
            entered_ns = Some(open.entered_ns);
            let text = arguments(&mut open, Some(event.fields), decoder, self.options.text_bytes);
            self.append(out, &text);
        }
        self.append(out, ") ");
        let padding = " ".repeat(RESULT_COLUMN.saturating_sub(self.column));
        self.append(out, &padding);
        let text = match (special, result) {
            (Some(text), _) => format!("= {text}"),
            (None, Some(result)) => result_text(call, result),
            (None, None) => "= ?".to_owned(),
        };
        let made = result.map(|result| decoder.made(result)).unwrap_or_default();
        self.append(out, &(text + &made));
        if let (true, Some(entered_ns)) = (self.options.durations, entered_ns) {
            let ns = event.ns - entered_ns;
            self.append(out, &format!(" <{}.{:06}>", ns / 1_000_000_000, ns / 1000 % 1_000_000));
        }
        self.end_line(out);
    }

    /// `--- SIGCHLD {si_signo=SIGCHLD, si_code=1} ---`
    fn signal(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Some(number) = event.fields.integer("sig") else {
            return;
        };
        let is_handled = event.fields.integer("sa_handler").is_none_or(|handler| handler != 0);
        if !is_handled && !HARMLESS.contains(&signal(number).as_str()) {
            self.killed_by.insert(event.tid, number);
        }
        // strace is not told of it before the end.
        if signal(number) == "SIGKILL" {
            return;
        }
        self.interrupt(out);
        self.begin_line(event, out);
        let name = signal(number);
        let code = event
            .fields
            .integer("code")
            .map_or_else(String::new, |code| format!(", si_code={code}"));
        self.append(out, &format!("--- {name} {{si_signo={name}{code}}} ---"));
        self.end_line(out);
    }

    /// `+++ exited with 0 +++`
    fn end(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let tid = event.fields.integer("tid").and_then(|tid| i32::try_from(tid).ok());
        if tid.is_some_and(|tid| tid != event.tid) {
            return;
        }
        let status = self.exit_status.remove(&event.tid);
        let killed_by = self.killed_by.remove(&event.tid);
        // exit(2) and exit_group(2) never return.
        if self.open.remove(&event.tid).is_some() && self.unfinished == Some(event.tid) {
            self.append(out, ") ");
            let padding = " ".repeat(RESULT_COLUMN.saturating_sub(self.column));
            self.append(out, &padding);
            self.append(out, "= ?");
            self.end_line(out);
            self.unfinished = None;
        }
        self.interrupt(out);
        self.begin_line(event, out);
        let text = match (killed_by, status) {
            (_, Some(status)) => format!("+++ exited with {} +++", status & 0xff),
            (Some(number), None) => format!("+++ killed by {} +++", signal(number)),
            (None, None) => "+++ exited +++".to_owned(),
        };
        self.append(out, &text);
        self.end_line(out);
    }

    /// Another thread's line comes in between.
    fn interrupt(&mut self, out: &mut Vec<u8>) {
        if self.unfinished.take().is_some() {
            self.append(out, " <unfinished ...>");
            self.end_line(out);
        }
    }

    fn begin_line(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.options.threads {
            self.append(out, &format!("{:<5} ", event.tid));
        }
        let (seconds, us) = (
            event.ns.div_euclid(1_000_000_000),
            event.ns.rem_euclid(1_000_000_000) / 1000,
        );
        let local = || {
            let of_day = (seconds + self.options.zone_seconds).rem_euclid(86400);
            format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
        };
        let time = match self.options.times {
            TimeFormat::None => String::new(),
            TimeFormat::Seconds => format!("{} ", local()),
            TimeFormat::Microseconds => format!("{}.{us:06} ", local()),
            TimeFormat::Epoch => format!("{seconds}.{us:06} "),
            TimeFormat::Relative => {
                let ns = event.ns - self.last_ns.unwrap_or(event.ns);
                format!("{:>6}.{:06} ", ns / 1_000_000_000, ns / 1000 % 1_000_000)
            }
        };
        self.last_ns = Some(event.ns);
        self.append(out, &time);
    }

    fn append(&mut self, out: &mut Vec<u8>, text: &str) {
        // Writing to memory does not fail.
        let _ = out.write_all(text.as_bytes());
        self.column += text.len();
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        out.push(b'\n');
        self.column = 0;
    }
}

/// `syscall_entry_openat`, `compat_syscall_exit_read`
pub(crate) fn call_of(event: &str) -> Option<(Side, Table, &str)> {
    let (table, rest) = match event.strip_prefix("compat_") {
        Some(rest) => (Table::Compat, rest),
        None => (Table::Native, event),
    };
    let rest = rest.strip_prefix("syscall_")?;
    let entry = rest.strip_prefix("entry_").map(|name| (Side::Entry, table, name));
    entry.or_else(|| rest.strip_prefix("exit_").map(|name| (Side::Exit, table, name)))
}

/// The arguments that are not printed yet, as far as they are known.
fn arguments(open: &mut Open, exit: Option<&Fields>, decoder: Decoder<'_>, text_bytes: usize) -> String {
    let Some(call) = open.call else {
        return unknown_arguments(open, exit.is_some());
    };
    let mut text = String::new();
    let meant = meant(call, &open.entry);
    for index in meant[open.printed.min(meant.len())..].iter().copied() {
        if !open.is_separated {
            text += ", ";
            open.is_separated = true;
        }
        if exit.is_none() && is_late(call, index, &open.entry) {
            break;
        }
        let seen = Seen {
            call,
            entry: &open.entry,
            exit,
            text_bytes,
            decoder,
        };
        text += &seen.argument(index);
        (open.printed, open.is_separated) = (open.printed + 1, false);
    }
    text
}

/// Those of a call that is in no table: six words.
fn unknown_arguments(open: &mut Open, has_returned: bool) -> String {
    let words = open.entry.list("args").unwrap_or_default();
    if has_returned || open.printed > 0 {
        return String::new();
    }
    open.printed = words.len();
    let words = words.iter().map(|word| match word {
        Value::Integer(word) => format!("{word:#x}"),
        _ => "?".to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// `= 3`, `= -1 ENOENT (No such file or directory)`
fn result_text(call: Option<&Syscall>, result: i128) -> String {
    const ADDRESSES: [&str; 4] = ["brk", "mmap", "mremap", "shmat"];
    if let Some((_, name, text)) = RESTARTS.into_iter().find(|(number, ..)| -number == result) {
        return format!("= ? {name} ({text})");
    }
    if (-ERRORS + 1..0).contains(&result) {
        let number = -result as i32;
        let name = error_name(number as u32).unwrap_or("E???");
        let text = std::io::Error::from_raw_os_error(number).to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_owned();
        return format!("= -1 {name} ({text})");
    }
    let name = call.map_or("", |call| call.program_name);
    let timed_out = matches!(name, "poll" | "ppoll" | "select" | "pselect6" | "_newselect") && result == 0;
    match ADDRESSES.contains(&name) {
        true => format!("= {}", address(result)),
        false if timed_out => "= 0 (Timeout)".to_owned(),
        false => format!("= {result}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::Undecoded;

    fn options() -> Options {
        Options {
            times: TimeFormat::None,
            durations: false,
            text_bytes: 32,
            threads: false,
            zone_seconds: 0,
        }
    }

    fn fields(all: &[(&str, Value)]) -> Fields {
        let mut fields = Fields::default();
        all.iter().for_each(|(name, value)| fields.push(name, value.clone()));
        fields
    }

    fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }

    const fn int(value: i128) -> Value {
        Value::Integer(value)
    }

    /// Descriptors with names.
    struct Named(&'static [(i32, &'static str)]);

    impl Descriptors for Named {
        fn name(&self, _: i32, descriptor: i32) -> Option<&str> {
            let known = self.0.iter().find(|(known, _)| *known == descriptor);
            known.map(|(_, name)| *name)
        }

        fn name_of_new(&self, tid: i32, descriptor: i32) -> Option<&str> {
            self.name(tid, descriptor).filter(|_| descriptor != 3)
        }
    }

    /// Prints events, each with its thread; a microsecond passes between two.
    fn check(options: Options, events: &[(i32, &str, Fields)], expected: &str) {
        check_with(&Undecoded, options, events, expected);
    }

    fn check_with(descriptors: &dyn Descriptors, options: Options, events: &[(i32, &str, Fields)], expected: &str) {
        let mut printer = Printer::new(options);
        let mut out = Vec::new();
        for ((tid, name, fields), us) in events.iter().zip(0..) {
            let event = Event {
                ns: us * 1000,
                tid: *tid,
                name,
                fields,
            };
            printer.event(&event, descriptors, &mut out);
        }
        printer.finish(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    fn open(path: &str) -> Fields {
        fields(&[
            ("dfd", int(-100)),
            ("filename", text(path)),
            ("flags", int(0x80000)),
            ("mode", int(0)),
            ("incomplete", text("")),
        ])
    }

    fn read() -> Fields {
        fields(&[("fd", int(3)), ("buf", int(0x7000)), ("count", int(10))])
    }

    #[test]
    fn a_call_is_a_line() {
        let result = |value| fields(&[("ret", int(value))]);
        check(
            options(),
            &[
                (1, "syscall_entry_openat", open("/a\n")),
                (1, "syscall_exit_openat", result(3)),
                (1, "syscall_entry_openat", open(&"x".repeat(40))),
                (1, "syscall_exit_openat", result(-2)),
                (1, "syscall_entry_close", fields(&[("fd", int(3))])),
                (1, "syscall_exit_close", result(0)),
            ],
            "openat(AT_FDCWD, \"/a\\n\", O_RDONLY|O_CLOEXEC) = 3\n\
             openat(AT_FDCWD, \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)\n\
             close(3)                                = 0\n",
        );
    }

    /// A call and its result.
    fn call(name: &'static str, entry: &[(&str, Value)], exit: &[(&str, Value)]) -> [(i32, String, Fields); 2] {
        [("entry", entry), ("exit", exit)].map(|(side, all)| (1, format!("syscall_{side}_{name}"), fields(all)))
    }

    fn check_calls(descriptors: &dyn Descriptors, calls: &[[(i32, String, Fields); 2]], expected: &str) {
        let events = calls.iter().flatten();
        let events: Vec<(i32, &str, Fields)> = events
            .map(|(tid, name, fields)| (*tid, name.as_str(), fields.clone()))
            .collect();
        check_with(descriptors, options(), &events, expected);
    }

    #[test]
    fn descriptors_are_printed_with_what_they_stand_for() {
        let named = Named(&[(-100, "/w"), (3, "/a<\"b>\n"), (4, "pipe:[7]"), (5, "/w/x")]);
        let ret = |value| [("ret", int(value))];
        let member = |fd| Value::Structure(fields(&[("fd", int(fd)), ("raw_events", int(1))]));
        let path = [("dfd", int(-100)), ("filename", text("x")), ("flags", int(0))];
        let waiting = ("fds", Value::List(vec![member(4), member(6)]));
        let poll = [
            ("ufds", int(0x7000)),
            ("nfds", int(2)),
            ("timeout_msecs", int(0)),
            waiting,
        ];
        let ends = [("ret", int(0)), ("fildes", Value::List(vec![int(3), int(4)]))];
        check_calls(
            &named,
            &[
                call("openat", &path, &ret(5)),
                // 3 was not made by it.
                call("openat", &path, &ret(3)),
                call("openat", &path, &ret(-2)),
                call("dup2", &[("oldfd", int(3)), ("newfd", int(9))], &ret(9)),
                call("close", &[("fd", int(0xffff_ffff))], &ret(-9)),
                call(
                    "lseek",
                    &[("fd", int(4)), ("offset", int(3)), ("whence", int(0))],
                    &ret(3),
                ),
                call("poll", &poll, &ret(1)),
                call("pipe", &[("fildes", int(0x7000))], &ends),
            ],
            "openat(AT_FDCWD</w>, \"x\", O_RDONLY)     = 5</w/x>\n\
             openat(AT_FDCWD</w>, \"x\", O_RDONLY)     = 3\n\
             openat(AT_FDCWD</w>, \"x\", O_RDONLY)     = -1 ENOENT (No such file or directory)\n\
             dup2(3</a\\74\\\"b\\76\\n>, 9)               = 9\n\
             close(-1)                               = -1 EBADF (Bad file descriptor)\n\
             lseek(4<pipe:[7]>, 3, SEEK_SET)         = 3\n\
             poll([{fd=4<pipe:[7]>, events=0x1}, {fd=6, events=0x1}], 2, 0) = 1\n\
             pipe([3</a\\74\\\"b\\76\\n>, 4<pipe:[7]>])   = 0\n",
        );
    }

    #[test]
    fn what_a_call_does_says_which_arguments_it_has() {
        let ret = |value| [("ret", int(value))];
        let fcntl = |cmd, arg| [("fd", int(1)), ("cmd", int(cmd)), ("arg", int(arg))];
        let futex = |op, val| {
            let words = [
                ("uaddr", int(0x7000)),
                ("op", int(op)),
                ("val", int(val)),
                ("utime", int(0)),
            ];
            [words.as_slice(), &[("uaddr2", int(5)), ("val3", int(0xffff_ffff))]].concat()
        };
        check_calls(
            &Undecoded,
            &[
                call("fcntl", &fcntl(1, 77), &ret(1)),
                call("fcntl", &fcntl(2, 1), &ret(0)),
                call("fcntl", &fcntl(3, 77), &ret(0x8001)),
                call("fcntl", &fcntl(4, 0x800), &ret(0)),
                call("fcntl", &fcntl(0, 10), &ret(10)),
                call("fcntl", &fcntl(6, 0x7000), &ret(0)),
                call("futex", &futex(0x80, 2), &ret(-11)),
                call("futex", &futex(0x81, 1), &ret(1)),
                call("futex", &futex(0x189, 2), &ret(-110)),
                call("ioctl", &fcntl(0x5401, 0x7000), &ret(-25)),
                call("umask", &[("mask", int(0o22))], &ret(0o77)),
            ],
            "fcntl(1, F_GETFD)                       = 0x1 (flags FD_CLOEXEC)\n\
             fcntl(1, F_SETFD, FD_CLOEXEC)           = 0\n\
             fcntl(1, F_GETFL)                       = 0x8001 (flags O_WRONLY|O_LARGEFILE)\n\
             fcntl(1, F_SETFL, O_RDONLY|O_NONBLOCK)  = 0\n\
             fcntl(1, F_DUPFD, 10)                   = 10\n\
             fcntl(1, F_SETLK, 0x7000)               = 0\n\
             futex(0x7000, FUTEX_WAIT_PRIVATE, 2, NULL) = -1 EAGAIN (Resource temporarily unavailable)\n\
             futex(0x7000, FUTEX_WAKE_PRIVATE, 1)    = 1\n\
             futex(0x7000, FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME, 2, NULL, FUTEX_BITSET_MATCH_ANY) = -1 ETIMEDOUT (Connection timed out)\n\
             ioctl(1, TCGETS, 0x7000)                = -1 ENOTTY (Inappropriate ioctl for device)\n\
             umask(022)                              = 077\n",
        );
    }

    #[test]
    fn memory_that_is_not_there_or_was_not_written_is_an_address() {
        let resource = ("resource", int(7));
        let limits = |pointer| {
            [
                ("pid", int(0)),
                resource.clone(),
                ("new_rlim", int(0)),
                ("old_rlim", int(pointer)),
            ]
        };
        let members = [
            ("old_rlim_rlim_cur", int(8 << 20)),
            ("old_rlim_rlim_max", int(u64::MAX.into())),
        ];
        let got = |result| [&[("ret", int(result))], members.as_slice()].concat();
        check_calls(
            &Undecoded,
            &[
                call("prlimit64", &limits(0x7000), &got(0)),
                call("prlimit64", &limits(0x7000), &got(-3)),
                call("prlimit64", &limits(0), &got(0)),
                call("brk", &[("brk", int(0))], &[("ret", int(0x9000))]),
            ],
            "prlimit64(0, RLIMIT_NOFILE, NULL, {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}) = 0\n\
             prlimit64(0, RLIMIT_NOFILE, NULL, 0x7000) = -1 ESRCH (No such process)\n\
             prlimit64(0, RLIMIT_NOFILE, NULL, NULL) = 0\n\
             brk(NULL)                               = 0x9000\n",
        );
    }

    #[test]
    fn calls_of_several_threads_are_broken_off_and_resumed() {
        let got = fields(&[("ret", int(2)), ("buf_bytes", text("hi")), ("incomplete", text(""))]);
        check(
            Options {
                threads: true,
                ..options()
            },
            &[
                (1, "syscall_entry_read", read()),
                (22, "syscall_entry_close", fields(&[("fd", int(3))])),
                (1, "syscall_exit_read", got),
                (22, "syscall_exit_close", fields(&[("ret", int(0))])),
                (1, "syscall_entry_read", read()),
            ],
            "1     read(3,  <unfinished ...>\n\
             22    close(3 <unfinished ...>\n\
             1     <... read resumed>\"hi\", 10)       = 2\n\
             22    <... close resumed>)              = 0\n\
             1     read(3,  <unfinished ...>\n",
        );
    }

    #[test]
    fn what_could_not_be_read_at_the_entry_is_printed_at_the_exit() {
        let entry = fields(&[
            ("filename", text("")),
            ("mode", int(0)),
            ("incomplete", text("filename unreadable")),
        ]);
        let exit = fields(&[("ret", int(-2)), ("filename", text("/late")), ("incomplete", text(""))]);
        let never = fields(&[
            ("ret", int(-14)),
            ("filename", text("")),
            ("incomplete", text("filename unreadable")),
        ]);
        check(
            options(),
            &[
                (1, "syscall_entry_access", entry.clone()),
                (1, "syscall_exit_access", exit),
                (1, "syscall_entry_access", entry),
                (1, "syscall_exit_access", never),
            ],
            "access(\"/late\", F_OK)                   = -1 ENOENT (No such file or directory)\n\
             access(/* unreadable */, F_OK)          = -1 EFAULT (Bad address)\n",
        );
    }

    #[test]
    fn padding_of_structures_is_not_printed() {
        let waiting = ["epfd", "events", "maxevents", "timeout", "sigmask", "sigsetsize"].map(|name| (name, int(4)));
        let event = fields(&[("raw_events", int(1)), ("padding", int(9)), ("data", int(5))]);
        let exit = fields(&[("ret", int(1)), ("fds", Value::List(vec![Value::Structure(event)]))]);
        check(
            options(),
            &[
                (1, "syscall_entry_epoll_pwait", fields(&waiting)),
                (1, "syscall_exit_epoll_pwait", exit),
            ],
            "epoll_pwait(4, [{events=0x1, data=5}], 4, 4, 0x4, 4) = 1\n",
        );
    }

    #[test]
    fn signals_and_ends_have_lines() {
        let exiting = fields(&[("error_code", int(3))]);
        let signal = fields(&[("sig", int(17)), ("code", int(1)), ("sa_handler", int(0x5000))]);
        check(
            options(),
            &[
                (1, "signal_deliver", signal),
                (1, "syscall_entry_exit_group", exiting),
                (1, "sched_process_exit", fields(&[("tid", int(1))])),
            ],
            "--- SIGCHLD {si_signo=SIGCHLD, si_code=1} ---\n\
             exit_group(3)                           = ?\n\
             +++ exited with 3 +++\n",
        );
    }

    #[test]
    fn signals_without_a_handler_end_a_program_or_do_nothing() {
        let signal = |number: i128| fields(&[("sig", int(number)), ("sa_handler", int(0))]);
        let end = || fields(&[("tid", int(1))]);
        check(
            options(),
            &[(1, "signal_deliver", signal(17)), (1, "sched_process_exit", end())],
            "--- SIGCHLD {si_signo=SIGCHLD} ---\n+++ exited +++\n",
        );
        check(
            options(),
            &[(1, "signal_deliver", signal(9)), (1, "sched_process_exit", end())],
            "+++ killed by SIGKILL +++\n",
        );
    }

    #[test]
    fn times_and_durations_are_shown_on_request() {
        check(
            Options {
                times: TimeFormat::Microseconds,
                durations: true,
                ..options()
            },
            &[
                (1, "syscall_entry_close", fields(&[("fd", int(3))])),
                (1, "syscall_exit_close", fields(&[("ret", int(-9))])),
            ],
            "00:00:00.000000 close(3)                = -1 EBADF (Bad file descriptor) <0.000001>\n",
        );
    }
}
