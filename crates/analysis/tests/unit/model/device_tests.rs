// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files. Requests are in request_tests.rs.

use super::device_script::Run;
use super::*;
use crate::facts::{Arguments, FileOwner};

/// What was told, a line for each.
#[derive(Default)]
struct Kept(Vec<String>);

impl Listen for Kept {
    fn file_call(&mut self, system: &System, call: &FileCall) {
        let of = |opened: Option<Opened>| {
            opened.map(|opened| {
                let file = system.file(opened.file);
                format!(
                    " {}={}[{}]",
                    opened.descriptor,
                    system.names.text(file.name),
                    file.kind.text()
                )
            })
        };
        self.0.push(format!(
            "{} {}{}{} {}/{}",
            system.thread(call.call.thread).process().pid,
            call.operation.text(),
            of(call.source).unwrap_or_default(),
            of(call.target).unwrap_or_default(),
            call.read_bytes(),
            call.written_bytes()
        ));
    }

    fn request(&mut self, system: &System, request: &Request) {
        let file = request.file.map(|id| system.names.text(system.file(id).name));
        self.0.push(format!(
            "{} {} {}+{} by {}{} queue {:?} device {:?}",
            system.device_name(request.device),
            request.operation.text(),
            request.sector.cast_signed(),
            request.bytes,
            request.thread.map_or(0, |id| system.thread(id).tid),
            file.map(|file| format!(" for {file}")).unwrap_or_default(),
            request.queue_ns(),
            request.device_ns()
        ));
    }
}

#[track_caller]
pub(super) fn check(lines: &str, expected: &[&str]) {
    check_in(Circumstances::whole(0), lines, expected);
}

#[track_caller]
pub(super) fn check_in(circumstances: Circumstances, lines: &str, expected: &[&str]) {
    let mut kept = Kept::default();
    Run::in_circumstances(circumstances).lines(lines, &mut kept);
    assert_eq!(kept.0, expected);
}

#[test]
fn a_descriptor_is_the_file_that_was_opened_until_it_is_closed() {
    check(
        "on 1
         open 3 /a
         read 3 10
         write 3 20
         sendfile 1 3 7
         read 3 -5
         close 3 0
         open -2 /b
         read 3 1",
        &[
            "1 open 3=/a[file] 0/0",
            "1 read 3=/a[file] 10/0",
            "1 write 3=/a[file] 0/20",
            "1 copy 3=/a[file] 1=[unknown] 7/7",
            "1 read 3=/a[file] 0/0",
            "1 open 0/0",
            "1 read 3=[unknown] 1/0",
        ],
    );
}

#[test]
fn duplicates_are_the_same_file() {
    check(
        "on 1
         open 3 /a
         dup2 3 1
         close 3 0
         write 1 5
         fcntl 1 0 10 10
         dup2 7 1
         write 10 6
         write 1 7",
        &[
            "1 open 3=/a[file] 0/0",
            "1 write 1=/a[file] 0/5",
            "1 write 10=/a[file] 0/6",
            "1 write 1=[unknown] 0/7",
        ],
    );
}

#[test]
fn a_child_has_what_its_parent_has_and_a_program_what_is_not_closed_for_it() {
    check(
        "on 1
         open 3 /a
         open 4 /b cloexec
         open 5 /c
         fcntl 5 2 1 0
         fork 2
         close 3 0
         on 2
         read 3 1
         read 4 1
         exec
         read 3 1
         read 4 1
         read 5 1
         on 1
         read 4 1",
        &[
            "1 open 3=/a[file] 0/0",
            "1 open 4=/b[file] 0/0",
            "1 open 5=/c[file] 0/0",
            "2 read 3=/a[file] 1/0",
            "2 read 4=/b[file] 1/0",
            "2 read 3=/a[file] 1/0",
            "2 read 4=[unknown] 1/0",
            "2 read 5=[unknown] 1/0",
            "1 read 4=/b[file] 1/0",
        ],
    );
}

#[test]
fn threads_share_until_one_of_them_shares_with_nobody() {
    check(
        "on 1
         thread 2
         open 3 /a
         on 2
         read 3 1
         close_range 3 9 2
         read 3 1
         on 1
         read 3 1
         close_range 3 9
         read 3 1",
        &[
            "1 open 3=/a[file] 0/0",
            "1 read 3=/a[file] 1/0",
            "1 read 3=[unknown] 1/0",
            "1 read 3=/a[file] 1/0",
            "1 read 3=[unknown] 1/0",
        ],
    );
}

#[test]
fn sockets_are_known_by_the_calls_that_make_and_use_them() {
    check(
        "on 1
         socket 3
         sendto 3 4
         accept 3 4
         read 4 9
         recvfrom 8 2
         write 8 1",
        &[
            "1 write 3=socket inet stream[socket] 0/4",
            "1 read 4=socket inet stream[socket] 9/0",
            "1 read 8=[socket] 2/0",
            "1 write 8=[socket] 0/1",
        ],
    );
}

#[test]
fn a_connected_socket_is_known_by_its_other_end() {
    check(
        "on 1
         socket 3
         connect 3 127.0.0.1:80 0
         write 3 4
         connect 3 127.0.0.1:81 -115
         write 3 4
         connect 3 127.0.0.1:82 -111
         write 3 4
         socket 5
         connect 5 /run/x 0
         read 5 1
         socket 6
         accept_from 6 7 10.0.0.1:4711
         read 7 2",
        &[
            "1 write 3=socket inet stream 127.0.0.1:80[socket] 0/4",
            "1 write 3=socket inet stream 127.0.0.1:81[socket] 0/4",
            "1 write 3=socket inet stream 127.0.0.1:81[socket] 0/4",
            "1 read 5=socket inet stream /run/x[socket] 1/0",
            "1 read 7=socket inet stream 10.0.0.1[socket] 2/0",
        ],
    );
}

#[test]
fn paths_may_begin_at_an_open_folder_and_may_be_known_late() {
    check(
        "on 1
         open 3 /etc
         open_in 4 3 passwd
         open_in 5 3 /bin/x
         open_in 6 9 x
         open_late 7 /late",
        &[
            "1 open 3=/etc[file] 0/0",
            "1 open 4=/etc/passwd[file] 0/0",
            "1 open 5=/bin/x[file] 0/0",
            "1 open 6=x[file] 0/0",
            "1 open 7=/late[file] 0/0",
        ],
    );
}

/// Told at the end, when every name is known.
#[derive(Default)]
struct AtTheEnd(Vec<FileId>);

impl Listen for AtTheEnd {
    fn file_call(&mut self, _: &System, call: &FileCall) {
        self.0.extend(call.source.map(|opened| opened.file));
    }
}

#[test]
fn ioctl_can_say_what_a_program_keeps() {
    check(
        "on 1
         open 3 /a cloexec
         open 4 /b
         ioctl 3 21584
         ioctl 4 21585
         ioctl 4 21505
         exec
         read 3 1
         read 4 1",
        &[
            "1 open 3=/a[file] 0/0",
            "1 open 4=/b[file] 0/0",
            "1 read 3=/a[file] 1/0",
            "1 read 4=[unknown] 1/0",
        ],
    );
}

#[test]
fn relative_paths_begin_at_the_working_directory_if_it_is_known() {
    check(
        "on 1
         open 3 x
         chdir /w
         open 4 x
         open 5 ./y/.
         fork 2
         chdir z
         open 6 x
         on 2
         open 3 x
         open 7 /d
         fchdir 7
         open 8 .
         chroot
         open 9 x
         chdir y
         open 10 x",
        &[
            "1 open 3=x[file] 0/0",
            "1 open 4=/w/x[file] 0/0",
            "1 open 5=/w/y[file] 0/0",
            "1 open 6=/w/z/x[file] 0/0",
            "2 open 3=/w/x[file] 0/0",
            "2 open 7=/d[file] 0/0",
            "2 open 8=/d[file] 0/0",
            "2 open 9=x[file] 0/0",
            "2 open 10=x[file] 0/0",
        ],
    );
}

/// What a descriptor of a thread stands for.
fn asked(system: &System, tid: i32, descriptor: i32) -> &str {
    let file = system.file_of(tid, descriptor);
    file.map_or("?", |file| system.names.text(file.name))
}

/// Calls that have made a descriptor: which one, and what it stands for.
#[derive(Default)]
struct Made(Vec<String>);

impl Listen for Made {
    fn call(&mut self, system: &System, call: &Call) {
        let descriptor = call.result as i32;
        let file = system.file_opened(system.thread(call.thread).tid, descriptor);
        let made = file.map(|file| {
            format!(
                "{} {descriptor} {}",
                system.names.text(call.name),
                system.names.text(file.name)
            )
        });
        self.0.extend(made);
    }
}

#[test]
fn descriptors_can_be_asked_for() {
    let mut made = Made::default();
    let mut run = Run::new();
    run.system.foretell_file(1, 0, b"/dev/null");
    run.system.foretell_file(1, -100, b"/w");
    let run = run.lines("on 1\nopen 3 x\nread 3 3\ndup 0 5\nopen -2 /n", &mut made);
    let of_parent = |run: &Run| [0, 3, 4, 5, -100].map(|descriptor| asked(&run.system, 1, descriptor).to_owned());
    assert_eq!(of_parent(&run), ["/dev/null", "/w/x", "?", "/dev/null", "/w"]);
    let mut run = run.lines("fork 2\non 2\nopen 4 /b cloexec\nexec", &mut made);
    assert_eq!(
        [0, 3, 4].map(|descriptor| asked(&run.system, 2, descriptor)),
        ["/dev/null", "/w/x", "?"]
    );
    assert_eq!(of_parent(&run), ["/dev/null", "/w/x", "?", "/dev/null", "/w"]);
    assert_eq!(asked(&run.system, 9, 0), "?");
    run.system.forget_files_of(1);
    assert_eq!(of_parent(&run), ["?"; 5]);
    assert_eq!(asked(&run.system, 2, 0), "/dev/null");
    assert_eq!(made.0, ["openat 3 /w/x", "dup 5 /dev/null", "openat 4 /b"]);
}

#[test]
fn what_a_thread_of_an_unknown_process_has_open_is_unknown() {
    let mut run = Run::new();
    run.system.foretell_file(1, 3, b"/a");
    // Thread 2 may be one of process 1, and have closed what that had.
    let mut run = run.lines("on 2\nclose 3 0\nopen 3 /b", &mut Nobody);
    assert_eq!((asked(&run.system, 2, 3), asked(&run.system, 1, 3)), ("?", "/a"));
    run.system.foretell(2, 1, b"b");
    assert_eq!((asked(&run.system, 2, 3), asked(&run.system, 1, 3)), ("?", "?"));
}

#[test]
fn a_name_that_the_state_dump_gives_later_is_that_of_the_file_from_its_begin_on() {
    let mut run = Run::new();
    let mut files = AtTheEnd::default();
    let read = run.system.names.keep(b"read");
    run.turn_to(1, &mut files);
    for (fact, ns) in [
        (
            Fact::CallEntry {
                call: read,
                arguments: Arguments {
                    descriptor: Some(0),
                    ..Arguments::default()
                },
            },
            20,
        ),
        (
            Fact::CallExit {
                call: Some(read),
                result: 1,
                found: Default::default(),
            },
            30,
        ),
        (Fact::DumpBegin, 40),
        (
            Fact::DumpedFile {
                owner: FileOwner::Process(1),
                descriptor: 0,
                flags: None,
                name: b"/dev/pts/0",
            },
            50,
        ),
    ] {
        let at = At {
            ns,
            cpu: Some(0),
            tid: None,
        };
        run.system.apply(&fact, at, &mut files);
    }
    let file = run.system.file(files.0[0]);
    assert_eq!(
        (file.kind, run.system.names.text(file.name)),
        (FileKind::Path, "/dev/pts/0")
    );
}

#[test]
fn what_changed_while_the_state_dump_looked_is_not_believed() {
    check(
        "on 1
         open 3 /a
         open 4
         dump
         close 3 0
         dumped 1 3 /a
         read 3 1
         dumped 1 4 /b
         read 4 1
         dumped 1 7 pipe:[1]
         read 7 1
         dumpend",
        &[
            "1 open 3=/a[file] 0/0",
            "1 open 4=[file] 0/0",
            "1 read 3=[unknown] 1/0",
            "1 read 4=/b[file] 1/0",
            "1 read 7=pipe:[1][pipe] 1/0",
        ],
    );
}

#[test]
fn files_that_the_state_dump_has_by_their_table_are_those_of_the_process() {
    check(
        "on 1
         dump
         process 1 4096
         dumped table4096 3 /a
         dumped table8192 4 /b
         dumpend
         read 3 1
         read 4 1",
        &["1 read 3=/a[file] 1/0", "1 read 4=[unknown] 1/0"],
    );
}

#[test]
fn a_gap_makes_descriptors_unknown() {
    let gap = Gap {
        cpu: Some(1),
        begin_ns: 45,
        end_ns: 48,
    };
    let circumstances = Circumstances {
        gaps: Gaps::new(&[gap]),
        ..Circumstances::whole(0)
    };
    check_in(
        circumstances,
        "on 1
         open 3 /a
         read 3 1
         read 3 1
         open 3 /a
         read 3 2",
        &[
            "1 open 3=/a[file] 0/0",
            "1 read 3=[unknown] 1/0",
            "1 read 3=[unknown] 1/0",
            "1 open 3=/a[file] 0/0",
            "1 read 3=/a[file] 2/0",
        ],
    );
}
