// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of kernels that are not this one: their formats as they write them, and what becomes of the records. Needs nothing of this machine.

mod handmade;

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use handmade::decode;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, Finding, program_call, stream_class};
use piste_kernel::layout::Layout;
use piste_kernel::resolve::{self, Refusal, ResolvedEvent};
use piste_kernel::spec::{CallPart, ChannelSpec, Context, EventSource, Memory, Rule};
use piste_syscalls::copies::{Kind, Size};
use piste_syscalls::{Architecture, Table};

const ENTER: u16 = 348;
const EXIT: u16 = 347;
const TID: i32 = 77;
const BEGIN_TICKS: u64 = 1000;

/// What events of most kernels begin with.
const USUAL: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";
/// What those of kernels for real-time work have beside it (Linux 6.1-rt).
const LAZY: &str = "\tfield:unsigned char common_preempt_lazy_count;\toffset:8;\tsize:1;\tsigned:0;\n";

/// The catalog of a kernel whose system calls have such fields.
fn catalog(common: &str, enter: &str, exit: &str) -> Catalog {
    let folder = tempfile::tempdir().unwrap();
    for (name, id, fields) in [("sys_enter", ENTER, enter), ("sys_exit", EXIT, exit)] {
        let event = folder.path().join("raw_syscalls").join(name);
        fs::create_dir_all(&event).unwrap();
        let text = format!("name: {name}\nID: {id}\nformat:\n{common}\n{fields}\nprint fmt: \"\"\n");
        for (file, text) in [("format", text), ("id", format!("{id}\n")), ("enable", "0".to_owned())] {
            fs::write(event.join(file), text).unwrap();
        }
    }
    let catalog = Catalog::read_folder(folder.path()).unwrap();
    // Formats are read when they are first asked for.
    catalog.learn_ids();
    for name in ["sys_enter", "sys_exit"] {
        catalog.by_name("raw_syscalls", name).unwrap();
    }
    catalog
}

fn enter_fields(from: u32) -> String {
    format!(
        "\tfield:long id;\toffset:{from};\tsize:8;\tsigned:1;\n\tfield:unsigned long args[6];\toffset:{};\tsize:48;\tsigned:0;\n",
        from + 8
    )
}

fn exit_fields(from: u32) -> String {
    format!(
        "\tfield:long id;\toffset:{from};\tsize:8;\tsigned:1;\n\tfield:long ret;\toffset:{};\tsize:8;\tsigned:1;\n",
        from + 8
    )
}

/// A record whose number is at `from`, with words behind it.
fn record(id: u16, from: usize, number: u64, words: &[u64]) -> Vec<u8> {
    let mut record = vec![0xee; from];
    record[..2].copy_from_slice(&id.to_le_bytes());
    record[4..8].copy_from_slice(&TID.to_le_bytes());
    for word in [number].iter().chain(words) {
        record.extend(word.to_le_bytes());
    }
    record
}

/// Events as `NAME FIELD=VALUE ..`, and findings.
fn converted(catalog: Catalog, records: &[Vec<u8>]) -> (Vec<String>, Vec<Finding>) {
    converted_by(handmade::channel(&[Context::Tid]).rules, catalog, records)
}

fn converted_by(rules: Vec<Rule>, catalog: Catalog, records: &[Vec<u8>]) -> (Vec<String>, Vec<Finding>) {
    let layout = Arc::new(Layout::new(catalog.names()));
    let channel = ChannelSpec {
        rules,
        ..handmade::channel(&[Context::Tid])
    };
    let mut converter = Converter::new(Arc::new(catalog), layout, &channel, &[], Box::new(handmade::Numbered));
    let page = handmade::page(BEGIN_TICKS, records.iter().map(|record| (BEGIN_TICKS, &**record)));
    let mut packet = Vec::new();
    let converted = converter.page(&handmade::parse(&page), 0, &mut packet);
    let classes = converter.take_new_classes();
    let classes: HashMap<_, _> = classes.into_iter().map(|class| (class.id, class)).collect();
    let contexts = stream_class(&channel).contexts;
    let events = decode::events(&packet, converted.begin_ticks, &contexts, &classes).unwrap();
    let shown = events.iter().map(|event| {
        assert_eq!(event.contexts[0].unsigned(), TID as u64);
        let class = &classes[&event.class_id];
        let fields = class.fields.iter().zip(&event.fields);
        let fields = fields.map(|(field, value)| {
            let words = value.bytes().chunks(8).map(|word| {
                let mut bytes = [0; 8];
                bytes[..word.len()].copy_from_slice(word);
                u64::from_le_bytes(bytes).to_string()
            });
            format!(" {}={}", field.name, words.collect::<Vec<_>>().join(","))
        });
        class.name.clone() + &fields.collect::<String>()
    });
    (shown.collect(), converted.findings)
}

#[test]
fn calls_are_found_wherever_the_format_says_that_they_are() {
    for (common, from) in [(USUAL.to_owned(), 8), (USUAL.to_owned() + LAZY, 16)] {
        let catalog = catalog(&common, &enter_fields(from), &exit_fields(from));
        let records = [
            record(ENTER, from as usize, 0, &[3, 4096, 17, 0, 0, 0]),
            record(EXIT, from as usize, 0, &[17]),
            record(ENTER, from as usize, 999, &[1, 2, 3, 4, 5, 6]),
        ];
        let (events, findings) = converted(catalog, &records);
        let expected = [
            "syscall_entry_read fd=3 buf=4096 count=17",
            "syscall_exit_read ret=17",
            "syscall_entry_unknown id=999 args=1,2,3,4,5,6",
        ];
        assert_eq!(events, expected, "from {from}");
        assert_eq!(findings, []);
    }
}

/// A rule for a call, with a filter.
fn filtered(pattern: &str, part: CallPart, filter: &str) -> Rule {
    let pattern = pattern.to_owned();
    let rule = handmade::rule(EventSource::Syscall { pattern, part });
    Rule {
        filter: Some(filter.to_owned()),
        ..rule
    }
}

#[test]
fn calls_are_filtered_by_arguments_that_the_kernel_cannot_compare() {
    let records = || {
        [
            record(ENTER, 8, 0, &[3, 4096, 17, 0, 0, 0]),
            record(EXIT, 8, 0, &[17]),
            record(ENTER, 8, 0, &[4, 4096, 5000, 0, 0, 0]),
            record(EXIT, 8, 0, &[(-9_i64).cast_unsigned()]),
            record(ENTER, 8, 3, &[4, 0, 0, 0, 0, 0]),
        ]
    };
    let check = |rules: Vec<Rule>, expected: &[&str], is_late: bool| {
        let catalog = catalog(USUAL, &enter_fields(8), &exit_fields(8));
        let is_exit_wanted = |rule: &Rule| {
            !matches!(
                rule.source,
                EventSource::Syscall {
                    part: CallPart::Entry,
                    ..
                }
            )
        };
        let is_entry_wanted = |rule: &Rule| {
            !matches!(
                rule.source,
                EventSource::Syscall {
                    part: CallPart::Exit,
                    ..
                }
            )
        };
        // The kernel records only what a rule wants.
        let has_exits = rules.iter().any(|rule| rule.enabled && is_exit_wanted(rule));
        let has_entries = rules.iter().any(|rule| rule.enabled && is_entry_wanted(rule));
        let is_there = |record: &Vec<u8>| match record[..2] == ENTER.to_le_bytes() {
            true => has_entries,
            false => has_exits,
        };
        let records: Vec<_> = records().into_iter().filter(is_there).collect();
        let (events, findings) = converted_by(rules.clone(), catalog, &records);
        assert_eq!(events, expected, "{rules:?}");
        let late = is_late.then_some(Finding::FilteredLate);
        assert_eq!(findings, Vec::from_iter(late), "{rules:?}");
    };
    let (small, large) = (
        "syscall_entry_read fd=3 buf=4096 count=17",
        "syscall_entry_read fd=4 buf=4096 count=5000",
    );
    let (whole, failed) = ("syscall_exit_read ret=17", "syscall_exit_read ret=18446744073709551607");
    let close = "syscall_entry_close fd=4";
    // What a side does not know does not reject it.
    check(
        vec![filtered("read", CallPart::Both, "count > 4096")],
        &[whole, large, failed],
        true,
    );
    check(vec![filtered("read", CallPart::Entry, "count > 4096")], &[large], true);
    check(
        vec![filtered("read", CallPart::Both, "count > 4096 && ret < 0")],
        &[large, failed],
        true,
    );
    check(
        vec![filtered("read", CallPart::Both, "fd == 3 || ret < 0")],
        &[small, whole, large, failed],
        false,
    );
    check(
        vec![filtered("*", CallPart::Both, "fd == 4")],
        &[whole, large, failed, close],
        true,
    );
    check(vec![filtered("*", CallPart::Entry, "count == 17")], &[small], true);
    check(
        vec![filtered("read", CallPart::Exit, "count > 4096 && ret < 0")],
        &[failed],
        true,
    );
    // What the kernel filters is not filtered again.
    check(
        vec![filtered("read", CallPart::Both, "ret < 0")],
        &[small, whole, large, failed],
        false,
    );
    check(
        vec![filtered("read", CallPart::Entry, "$tid == 5")],
        &[small, large],
        false,
    );
    // One of several rules is enough; the filters of those that the kernel could follow alone apply here, too.
    let by_result = || filtered("read", CallPart::Both, "ret < 0");
    let by_count = || filtered("read", CallPart::Both, "count == 17 && $cpu == 0 && $tid != 1");
    check(vec![by_result(), by_count()], &[small, whole, large, failed], true);
    let of_others = filtered("read", CallPart::Both, "count == 17 && $cpu == 1");
    check(vec![of_others], &[], true);
    let disabled = Rule {
        enabled: false,
        ..by_count()
    };
    check(
        vec![filtered("read", CallPart::Entry, "count > 4096"), disabled],
        &[large],
        true,
    );
    let unfiltered = Rule {
        filter: None,
        ..by_count()
    };
    check(
        vec![filtered("read", CallPart::Entry, "count > 4096"), unfiltered],
        &[small, whole, large, failed],
        false,
    );
    let raw = handmade::rule(EventSource::Tracepoint {
        pattern: "raw_syscalls:*".to_owned(),
    });
    check(
        vec![filtered("read", CallPart::Entry, "count > 4096"), raw],
        &[small, whole, large, failed, close],
        false,
    );
}

#[test]
fn filters_that_nobody_can_follow_together_are_given_up() {
    let by_comm = filtered("read", CallPart::Entry, "$comm == \"a\"");
    let rules = vec![by_comm, filtered("read", CallPart::Entry, "count > 4096")];
    let catalog = catalog(USUAL, &enter_fields(8), &exit_fields(8));
    let (events, findings) = converted_by(rules, catalog, &[record(ENTER, 8, 0, &[3, 4096, 17, 0, 0, 0])]);
    assert_eq!(events, ["syscall_entry_read fd=3 buf=4096 count=17"]);
    assert_eq!(
        findings,
        [Finding::FilterGivenUp {
            call: "read".to_owned()
        }]
    );
}

#[test]
fn filters_on_arguments_are_for_calls_that_have_names() {
    let catalog = catalog(USUAL, &enter_fields(8), &exit_fields(8));
    let resolved = resolve::rule(&filtered("*", CallPart::Both, "count > 4096"), &catalog, None).unwrap();
    let has_condition = |name: &str| {
        let is_it = |event: &&ResolvedEvent| matches!(event, ResolvedEvent::Syscall { name: own, .. } if *own == name);
        resolved.iter().find(is_it).map(|event| match event {
            ResolvedEvent::Syscall { condition, .. } => condition.is_some(),
            ResolvedEvent::Tracepoint { .. } => false,
        })
    };
    assert_eq!((has_condition("read"), has_condition("close")), (Some(true), None));
    let refused =
        |filter: &str, catalog: &Catalog| match resolve::rule(&filtered("*", CallPart::Both, filter), catalog, None) {
            Err(Refusal::InvalidFilter { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
    assert!(refused("cuont > 4096", &catalog).contains("did you mean count?"));
    let of_exits = |filter| resolve::rule(&filtered("read", CallPart::Exit, filter), &catalog, None);
    assert!(of_exits("count > 4096 && ret < 0").is_ok());
    let refusal = of_exits("id == 0 && count > 4096");
    assert!(
        matches!(refusal, Err(Refusal::InvalidFilter { reason, .. }) if reason.contains("`id` cannot be compared"))
    );
    assert!(
        matches!(of_exits("count > 4096"), Err(Refusal::InvalidFilter { reason, .. }) if reason.contains("leave out --exit"))
    );
    let other = catalog.on(Architecture::named("loongarch64"));
    assert!(refused("count > 4096", &other).contains("on loongarch64, filters on system calls can compare id"));
}

#[test]
fn calls_of_another_shape_are_recorded_as_they_are_and_said() {
    let narrow = "\tfield:int id;\toffset:8;\tsize:4;\tsigned:1;\n";
    let catalog = catalog(USUAL, narrow, &exit_fields(8));
    let (events, findings) = converted(catalog, &[record(ENTER, 8, 5, &[])]);
    assert_eq!(events, ["sys_enter id=5"]);
    let [Finding::OtherShape { event, what }] = &*findings else {
        panic!("{findings:?}");
    };
    assert_eq!(event, "raw_syscalls:sys_enter");
    assert_eq!(what, "id is int32 instead of int64, args is missing");
}

#[test]
fn a_record_of_a_call_that_is_too_short_is_discarded() {
    let catalog = catalog(&(USUAL.to_owned() + LAZY), &enter_fields(16), &exit_fields(16));
    // Long enough for most kernels, not for this one.
    let (events, findings) = converted(catalog, &[record(EXIT, 8, 0, &[17])]);
    assert!(events.is_empty());
    assert_eq!(findings, [Finding::UnknownEvent { id: EXIT, records: 1 }]);
}

#[test]
fn calls_of_other_processors_have_numbers_and_words_and_no_names() {
    let other = || catalog(USUAL, &enter_fields(8), &exit_fields(8)).on(Architecture::named("loongarch64"));
    let records = [
        record(ENTER, 8, 0, &[1, 2, 3, 4, 5, 6]),
        record(EXIT, 8, 0, &[9]),
        record(ENTER, 8, 59, &[0; 6]),
    ];
    let (events, findings) = converted(other(), &records);
    let expected = [
        "syscall_entry_unknown id=0 args=1,2,3,4,5,6",
        "syscall_exit_unknown id=0 ret=9",
        "syscall_entry_unknown id=59 args=0,0,0,0,0,0",
    ];
    assert_eq!(events, expected);
    assert_eq!(
        findings,
        [Finding::UnnamedCalls {
            architecture: "loongarch64"
        }]
    );
}

#[test]
fn calls_have_the_numbers_of_the_processor() {
    for (architecture, [read, execve]) in [("aarch64", [63, 221]), ("riscv64", [63, 221]), ("x86_64", [0, 59])] {
        let catalog = catalog(USUAL, &enter_fields(8), &exit_fields(8)).on(Architecture::named(architecture));
        let records = [
            record(ENTER, 8, read, &[3, 4096, 17, 0, 0, 0]),
            record(EXIT, 8, read, &[17]),
            record(ENTER, 8, execve, &[1, 2, 3, 0, 0, 0]),
            // One that only 32-bit Arm programs have.
            record(EXIT, 8, 0xf_0005, &[0]),
        ];
        let (events, findings) = converted(catalog, &records);
        let expected = [
            "syscall_entry_read fd=3 buf=4096 count=17",
            "syscall_exit_read ret=17",
            "syscall_entry_execve filename=1 argv=2 envp=3",
            "syscall_exit_unknown id=983045 ret=0",
        ];
        assert_eq!(events, expected, "{architecture}");
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn structures_have_the_size_that_they_have_on_the_processor() {
    for (architecture, event_bytes) in [("x86_64", 12), ("aarch64", 16), ("riscv64", 16)] {
        let architecture = Architecture::named(architecture);
        let copied = |name| {
            let call = architecture.by_name(Table::Native, name).unwrap();
            program_call(Table::Native, call, &Memory::default()).copies[0].kind
        };
        let bytes_each = event_bytes;
        assert_eq!(copied("epoll_ctl"), Kind::Bytes(Size::Fixed(event_bytes)));
        assert_eq!(copied("epoll_pwait"), Kind::Bytes(Size::Result { bytes_each }));
    }
}

#[test]
fn rules_choose_all_calls_of_other_processors_or_are_refused() {
    let other = catalog(USUAL, &enter_fields(8), &exit_fields(8)).on(Architecture::named("loongarch64"));
    let rule = |pattern: &str| {
        let pattern = pattern.to_owned();
        handmade::rule(EventSource::Syscall {
            pattern,
            part: CallPart::Both,
        })
    };
    let all = resolve::rule(&rule("*"), &other, None).unwrap();
    let raw = |name: &str| ResolvedEvent::Tracepoint {
        system: "raw_syscalls".to_owned(),
        name: name.to_owned(),
        filter: None,
    };
    assert_eq!(all, [raw("sys_enter"), raw("sys_exit")]);
    let mut without = rule("*");
    without.excluded.push("read".to_owned());
    for (rule, named) in [(rule("openat"), "openat"), (without, "read")] {
        match resolve::rule(&rule, &other, None) {
            Err(Refusal::InvalidPattern(invalid)) => {
                assert_eq!(invalid.pattern, named);
                assert!(invalid.reason.contains("loongarch64"), "{}", invalid.reason);
            }
            refusal => panic!("{refusal:?}"),
        }
    }
}
