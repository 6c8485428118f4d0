// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the BPF program become events with what the arguments of a call point to. No kernel is needed: the records are made by hand.

mod handmade;

use std::collections::HashMap;
use std::sync::Arc;

use handmade::decode::{self, Value};
use piste_ctf::{Element, EventClass, Field, FieldKind};
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{CALL_ENTRY, CALL_EXIT, CALL_LATE_EXIT, Converter, program_call};
use piste_kernel::layout::Layout;
use piste_kernel::spec::{Memory, Rule};
use piste_syscalls::copies::{COPY_COUNT, State, record};
use piste_syscalls::{Architecture, Table};

const EVERYTHING: Memory = Memory {
    environment: true,
    buffer_bytes: 4096,
};
const USUAL: Memory = Memory {
    environment: false,
    buffer_bytes: 0,
};

/// A record, as the program makes it: what it copied, in the order of the call's copies, and what became of each.
struct Record<'a> {
    kind: u16,
    table: Table,
    call: &'a str,
    words: &'a [u64],
    copies: &'a [(&'a [u8], State)],
}

impl Record<'_> {
    fn bytes(&self) -> Vec<u8> {
        let call = Architecture::HERE.by_name(self.table, self.call).expect(self.call);
        let mut words = self.words.to_vec();
        words.resize(if self.kind == CALL_ENTRY { 6 } else { 1 }, 0);
        let mut bytes = [&self.kind.to_le_bytes()[..], &[self.table as u8, 0]].concat();
        bytes.extend(7_i32.to_le_bytes());
        bytes.extend(i64::from(call.number).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        if self.copies.is_empty() {
            return bytes;
        }
        let mut at = bytes.len() + record::STATES + 8;
        let mut states = 0_u16;
        let mut contents: Vec<u8> = Vec::new();
        for index in 0..COPY_COUNT {
            let (content, state) = self.copies.get(index).copied().unwrap_or((&[], State::Whole));
            bytes.extend(((content.len() << 16 | at) as u32).to_le_bytes());
            let state = [State::Whole, State::Cut, State::Unreadable, State::Absent]
                .iter()
                .position(|other| *other == state);
            states |= (state.expect("it is one of them") as u16) << (2 * index);
            at += content.len();
            contents.extend(content);
        }
        bytes.extend(states.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(contents);
        bytes
    }
}

/// Checks the event that a record becomes, without its contexts.
fn check(memory: Memory, fields: &[&str], record: &Record<'_>, expected: &str) {
    if !Architecture::HERE.has_tables() {
        println!("skipped: the numbers of system calls are not known here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let catalog = Arc::new(Catalog::read_folder(folder.path()).unwrap());
    let layout = Arc::new(Layout::new(catalog.names()));
    let mut channel = handmade::channel(&[]);
    channel.memory = Some(memory);
    let chosen = |rule: Rule| Rule {
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        ..rule
    };
    channel.rules = channel.rules.into_iter().map(chosen).collect();
    let mut converter = Converter::of_calls(catalog, layout, &channel, Box::new(handmade::Numbered));
    let page = handmade::page(100, [(100, &record.bytes()[..])]);
    let mut packet = Vec::new();
    let converted = converter.page(&handmade::parse(&page), 0, &mut packet);
    assert_eq!((converted.events, converted.discarded), (1, 0), "{expected}");
    let classes: HashMap<u32, EventClass> = converter
        .take_new_classes()
        .into_iter()
        .map(|class| (class.id, class))
        .collect();
    let events = decode::events(&packet, converted.begin_ticks, &[], &classes).unwrap();
    let class = &classes[&events[0].class_id];
    let fields = class.fields.iter().zip(&events[0].fields);
    let shown: Vec<String> = fields
        .map(|(field, value)| format!("{} = {}", field.name, shown(field, value)))
        .collect();
    assert_eq!(format!("{}: {}", class.name, shown.join(", ")), expected);
}

fn shown(field: &Field, value: &Value) -> String {
    let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    match &field.kind {
        FieldKind::Scalar { element, .. } => number(*element, value.bytes()),
        FieldKind::Strings => {
            let texts = value.bytes().split_inclusive(|byte| *byte == 0);
            let texts: Vec<String> = texts.map(|bytes| text(&bytes[..bytes.len() - 1])).collect();
            format!("[{}]", texts.join(", "))
        }
        FieldKind::Structures { members } => {
            let bytes: usize = members.iter().map(|member| member.element.bytes() as usize).sum();
            let structure = |mut rest: &[u8]| {
                let member = members.iter().map(|member| {
                    let (own, behind) = rest.split_at(member.element.bytes() as usize);
                    rest = behind;
                    format!("{} = {}", member.name, number(member.element, own))
                });
                format!("{{{}}}", member.collect::<Vec<_>>().join(", "))
            };
            let all: Vec<String> = value.bytes().chunks_exact(bytes).map(structure).collect();
            format!("[{}]", all.join(", "))
        }
        FieldKind::Array { element, .. } | FieldKind::Sequence { element, .. } => {
            let all = value.bytes().chunks_exact(element.bytes() as usize);
            let all: Vec<String> = all.map(|bytes| number(*element, bytes)).collect();
            format!("[{}]", all.join(", "))
        }
        _ => text(value.bytes()),
    }
}

fn number(element: Element, bytes: &[u8]) -> String {
    let is_negative = bytes.last().is_some_and(|last| *last >= 0x80);
    let is_signed = matches!(
        element,
        Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64
    );
    let mut word = if is_signed && is_negative { [0xff; 8] } else { [0; 8] };
    word[..bytes.len()].copy_from_slice(bytes);
    match is_signed {
        true => i64::from_le_bytes(word).to_string(),
        false => u64::from_le_bytes(word).to_string(),
    }
}

fn entry<'a>(call: &'a str, words: &'a [u64], copies: &'a [(&'a [u8], State)]) -> Record<'a> {
    Record {
        kind: CALL_ENTRY,
        table: Table::Native,
        call,
        words,
        copies,
    }
}

fn exit<'a>(call: &'a str, words: &'a [u64], copies: &'a [(&'a [u8], State)]) -> Record<'a> {
    Record {
        kind: CALL_EXIT,
        ..entry(call, words, copies)
    }
}

#[test]
fn a_text_takes_the_place_of_its_address() {
    let words = [-100_i64 as u64, 0x7000, 0x80000, 0];
    check(
        USUAL,
        &[],
        &entry("openat", &words, &[(b"/etc/passwd\0", State::Whole)]),
        r#"syscall_entry_openat: dfd = -100, filename = "/etc/passwd", flags = 524288, mode = 0, incomplete = """#,
    );
    check(USUAL, &[], &exit("openat", &[3], &[]), "syscall_exit_openat: ret = 3");
}

#[test]
fn what_is_not_whole_is_told() {
    let names: &[(&[u8], State)] = &[(b"/aaa", State::Cut), (b"", State::Unreadable)];
    check(
        USUAL,
        &[],
        &entry("rename", &[1, 2], names),
        r#"syscall_entry_rename: oldname = "/aaa", newname = "", incomplete = "oldname cut, newname unreadable""#,
    );
    let names: &[(&[u8], State)] = &[(b"/a\0", State::Whole), (b"", State::Absent)];
    check(
        USUAL,
        &[],
        &entry("rename", &[1, 0], names),
        r#"syscall_entry_rename: oldname = "/a", newname = "", incomplete = "newname null""#,
    );
}

#[test]
fn what_was_unreadable_at_the_entry_comes_at_the_exit() {
    let names: &[(&[u8], State)] = &[(b"", State::Absent), (b"/b\0", State::Whole)];
    let late = Record {
        kind: CALL_LATE_EXIT,
        ..exit("rename", &[0], names)
    };
    check(
        USUAL,
        &[],
        &late,
        r#"syscall_exit_rename: ret = 0, oldname = "", newname = "/b", incomplete = "oldname at entry""#,
    );
}

#[test]
fn programs_are_executed_with_arguments_and_if_wanted_with_an_environment() {
    let argv = [&2_u32.to_le_bytes()[..], b"ls\0-l\0"].concat();
    let envp = [&1_u32.to_le_bytes()[..], b"A=1\0"].concat();
    let copies = [
        (&b"/bin/ls\0"[..], State::Whole),
        (&argv[..], State::Whole),
        (&envp[..], State::Cut),
    ];
    check(
        EVERYTHING,
        &[],
        &entry("execve", &[1, 2, 3], &copies),
        r#"syscall_entry_execve: filename = "/bin/ls", argv = ["ls", "-l"], envp = ["A=1"], incomplete = "envp cut""#,
    );
    check(
        USUAL,
        &[],
        &entry("execve", &[1, 2, 3], &copies[..2]),
        r#"syscall_entry_execve: filename = "/bin/ls", argv = ["ls", "-l"], envp = 3, incomplete = """#,
    );
}

#[test]
fn addresses_of_sockets_are_written_as_lttng_writes_them() {
    let inet = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    check(
        USUAL,
        &[],
        &entry("connect", &[3, 1, 16], &[(&inet, State::Whole)]),
        "syscall_entry_connect: fd = 3, uservaddr = 1, addrlen = 16, family = 2, dport = 80, v4addr = [127, 0, 0, 1], v6addr = [], \
         sun_path = \"\", incomplete = \"\"",
    );
    check(
        USUAL,
        &[],
        &exit(
            "accept",
            &[4],
            &[
                (b"\x01\0/run/socket\0", State::Whole),
                (&16_u32.to_le_bytes(), State::Whole),
            ],
        ),
        "syscall_exit_accept: ret = 4, family = 1, sport = 0, v4addr = [], v6addr = [], sun_path = \"/run/socket\", \
         upeer_addrlen_value = 16, incomplete = \"\"",
    );
}

#[test]
fn messages_have_an_address_a_vector_and_contents() {
    let vector = [[1_u64, 5], [2, 6]].concat();
    let vector: Vec<u8> = vector.iter().flat_map(|word| word.to_le_bytes()).collect();
    let copies = [
        (&b"\x01\0\0name"[..], State::Whole),
        (&vector[..], State::Whole),
        (&b"hello world"[..], State::Whole),
    ];
    check(
        EVERYTHING,
        &[],
        &entry("sendmsg", &[3, 1, 0], &copies),
        "syscall_entry_sendmsg: fd = 3, msg = 1, flags = 0, family = 1, dport = 0, v4addr = [], v6addr = [], sun_path = \"@name\", \
         iov_list = [{iov_base = 1, iov_len = 5}, {iov_base = 2, iov_len = 6}], iov_bytes = \"hello world\", incomplete = \"\"",
    );
    let sent = program_call(
        Table::Native,
        Architecture::HERE.by_name(Table::Native, "sendmsg").unwrap(),
        &EVERYTHING,
    );
    assert_eq!(sent.copies.len(), 3);
}

#[test]
fn structures_are_fields_and_lists_of_them_are_lists() {
    let times: Vec<u8> = [5_i64, 6].iter().flat_map(|word| word.to_le_bytes()).collect();
    check(
        USUAL,
        &[],
        &entry("nanosleep", &[1, 2], &[(&times, State::Whole), (b"", State::Absent)]),
        "syscall_entry_nanosleep: rqtp = 1, rmtp = 2, rqtp_tv_sec = 5, rqtp_tv_nsec = 6, incomplete = \"\"",
    );
    let polled = [3_u32.to_le_bytes(), [1, 0, 0, 0]].concat();
    check(
        USUAL,
        &[],
        &exit("poll", &[1], &[(&polled, State::Whole)]),
        "syscall_exit_poll: ret = 1, fds = [{fd = 3, raw_events = 1, raw_revents = 0}], incomplete = \"\"",
    );
}

#[test]
fn what_a_link_points_to_is_a_text() {
    check(
        USUAL,
        &[],
        &exit("readlink", &[4], &[(b"", State::Absent), (b"/bin", State::Whole)]),
        "syscall_exit_readlink: ret = 4, target = \"/bin\", incomplete = \"\"",
    );
}

#[test]
fn buffers_are_recorded_on_request() {
    check(
        EVERYTHING,
        &[],
        &entry("write", &[1, 2, 3], &[(b"abc", State::Whole)]),
        "syscall_entry_write: fd = 1, buf = 2, count = 3, buf_bytes = \"abc\", incomplete = \"\"",
    );
    check(
        USUAL,
        &[],
        &entry("write", &[1, 2, 3], &[]),
        "syscall_entry_write: fd = 1, buf = 2, count = 3",
    );
}

#[test]
fn only_chosen_fields_are_recorded() {
    check(
        USUAL,
        &["filename", "flags"],
        &entry("openat", &[0, 1, 2, 3], &[(b"/a\0", State::Whole)]),
        "syscall_entry_openat: filename = \"/a\", flags = 2",
    );
    check(
        USUAL,
        &["rqtp_tv_nsec"],
        &entry("nanosleep", &[1, 2], &[(&[7; 16], State::Whole), (b"", State::Absent)]),
        "syscall_entry_nanosleep: rqtp_tv_nsec = 506381209866536711",
    );
}
