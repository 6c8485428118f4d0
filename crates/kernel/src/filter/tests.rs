// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

const FORMAT: &str = r#"name: sched_switch
ID: 372
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:unsigned char tiny;	offset:28;	size:1;	signed:0;
	field:unsigned long args[2];	offset:32;	size:16;	signed:0;
	field:__data_loc char[] text;	offset:48;	size:4;	signed:0;
	field:unsigned int vec;	offset:52;	size:4;	signed:0;
	field:int prev_prio;	offset:56;	size:4;	signed:1;
	field:long prev_state;	offset:64;	size:8;	signed:1;
	field:__data_loc char[] name;	offset:72;	size:4;	signed:0;

print fmt: "vec=%s", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }, { 3, "TIMER" })
"#;

fn event() -> EventFormat {
    EventFormat::parse("sched", FORMAT).expect("a format")
}

fn translated(filter: &str) -> Result<Translation, FilterError> {
    translate(&Filter::parse(filter)?, &event(), Some("sched_switch"))
}

/// In the kernel's words; `all`, `none` or an error.
fn check(filter: &str, expected: &str) {
    let shown = match translated(filter) {
        Ok(translation) => match translation.words {
            Words::Everything => "all".into(),
            Words::Nothing => "none".into(),
            Words::Some(words) => words,
        },
        Err(error) => error.to_string(),
    };
    assert_eq!(shown, expected, "{filter}");
}

#[test]
fn filters_are_said_in_the_kernels_words() {
    check("prev_pid==3", "prev_pid == 3");
    check("prev_tid == 0x10&&tiny<7", "prev_pid == 16 && tiny < 7");
    check("3 < tiny", "tiny > 3");
    check("tiny > 1e1", "tiny > 10");
    check("$tid == 3", "common_pid == 3");
    check("$cpu != 1 && $comm == 'a b'", "CPU != 1 && COMM == \"a b\"");
    check("$payload.tiny == 1", "tiny == 1");
    check(
        "(tiny == 1 || tiny == 2) && !vec & 1",
        "(tiny == 1 || tiny == 2) && !(vec & 1)",
    );
    check(
        "tiny == 1 || (tiny == 2 && vec == 3)",
        "tiny == 1 || tiny == 2 && vec == 3",
    );
    check("! (prev_comm ~ \"k*\")", r#"!(prev_comm ~ "\k*")"#);
    check("prev_comm !~ 'k?[a-z]*'", r#"!(prev_comm ~ "\k?[a-z]*")"#);
    check("text != \"it's && (\"", "text != \"it's && (\"");
    check(r#"text == "a\"b""#, "text == 'a\"b'");
}

#[test]
fn values_are_those_of_the_trace() {
    check("prev_prio < 0", "prev_prio < 100");
    check("prev_prio == 20", "prev_prio == 120");
    check("prev_state == 0", "!(prev_state & -257)");
    check("prev_state == 1", "prev_state & 1 && !(prev_state & -258)");
    check("prev_state != 1", "!(prev_state & 1 && !(prev_state & -258))");
    check("prev_state & 64", "prev_state & 48");
    check("prev_state & 0x10", "none");
    check("prev_state_raw == 256", "prev_state == 256");
}

#[test]
fn names_of_values_stand_for_all_that_have_them() {
    check("vec == \"HI\"", "vec == 0");
    check("vec == \"TIMER\"", "vec == 1 || vec == 3");
    check("tiny == 1 && vec == \"TIMER\"", "tiny == 1 && (vec == 1 || vec == 3)");
    check("vec != \"TIMER\"", "!(vec == 1 || vec == 3)");
    check("vec & \"TIMER\"", "vec & 1 || vec & 3");
    check("vec =~ \"H*\"", "vec == 0");
    check("vec !~ \"T*\"", "!(vec == 1 || vec == 3)");
}

#[test]
fn bits_are_asked_for_one_by_one() {
    check("(tiny & 6) == 2", "tiny & 2 && !(tiny & 4)");
    check("(tiny & 6) == 0", "!(tiny & 6)");
    check("(tiny & 3) != 3", "!(tiny & 1 && tiny & 2)");
    check("(tiny & 3) == 4", "none");
    check("tiny & 6 & 3", "tiny & 2");
    check("3 == (3 & tiny)", "tiny & 1 && tiny & 2");
}

#[test]
fn what_is_known_of_the_event_is_decided() {
    check("name == \"sched_switch\" && tiny == 1", "tiny == 1");
    check("name =~ \"sched_*\"", "all");
    check("name != \"sched_switch\" && tiny == 1", "none");
    check("1 == 2 || exists(tiny)", "all");
    check("none == 1", "none");
    check("none == 3 || tiny == 1", "tiny == 1");
    check("!(none == 3)", "all");
    check("none =~ 'x' || none !~ 'x' || exists(none) || none.x[2] < 0", "none");
    let missing = translated("none == 3 || tiny == 1 || a.b == 2")
        .expect("a filter")
        .missing;
    let named = missing.iter().map(|missing| (missing.position, &*missing.name));
    assert_eq!(named.collect::<Vec<_>>(), [(0, "none"), (26, "a.b")]);
}

#[test]
fn what_the_kernel_cannot_do_is_refused_with_the_reason() {
    for (filter, expected) in [
        (
            "text < \"x\"",
            "the kernel compares the string `text` only with == != =~ and !~, not with <, at byte 5",
        ),
        (
            "text == 3",
            "`text` is a string: expected a string in quotes, at byte 8",
        ),
        (
            "tiny == \"x\"",
            "`tiny` is a number: expected a number without quotes, at byte 8",
        ),
        (
            "tiny =~ \"x\"",
            "`tiny` is a number without names of values: == != < <= > >= and & are allowed, not a pattern, at byte 5",
        ),
        (
            "tiny < 256",
            "`tiny` has 8 bits: numbers from 0 to 255 are allowed, at byte 7",
        ),
        (
            "tiny == -1",
            "`tiny` has 8 bits: numbers from 0 to 255 are allowed, at byte 8",
        ),
        (
            "prev_tid == 0xffffffff",
            "`prev_tid` has 32 bits: numbers from -2147483648 to 2147483647 are allowed, at byte 12",
        ),
        (
            "prev_prio == 2147483600",
            "`prev_prio` has 32 bits: numbers from -2147483748 to 2147483547 are allowed, at byte 13",
        ),
        (
            "prev_prio & 4",
            "the kernel cannot compare the bits of `prev_prio`, whose values are shifted, at byte 10",
        ),
        (
            "prev_state < 2",
            "`prev_state` is a set of bits: == != and & are allowed; `prev_state_raw` is the kernel's number, at byte 11",
        ),
        (
            "tiny == 1.5",
            "`tiny` is a whole number, and the kernel does not compare it with 1.5, at byte 8",
        ),
        (
            "vec == \"SOFT\"",
            "`vec` has no value \"SOFT\"; use a number or one of HI, TIMER, TIMER, at byte 7",
        ),
        (
            "vec < \"HI\"",
            "names of values are compared only with == != =~ !~ and &, at byte 4",
        ),
        (
            "tiny == vec",
            "the kernel compares a field with a number or a string, not with another field, at byte 5",
        ),
        (
            "args == 3",
            "the kernel cannot compare `args`, of type `unsigned long[2]`, with anything, at byte 5",
        ),
        (
            "args[0] == 3",
            "the kernel compares only whole fields, not parts of `args`, at byte 0",
        ),
        (
            "$cpu & 1",
            "the kernel compares the CPU only with == != < <= > >=, at byte 5",
        ),
        (
            "$pid == 1",
            "the kernel compares the thread, not the process: use $tid here, or --pid to record processes, at byte 0",
        ),
        (
            "$time > 1",
            "the kernel cannot compare $time; use it when you read the trace, at byte 0",
        ),
        (
            "$ctx.vtid == 1",
            "the kernel compares only the event's own fields, $tid, $comm and $cpu; use contexts when you read the trace, \
             at byte 0",
        ),
        (
            "prev_comm == \"12345678901234567\"",
            "the string has 17 bytes, but `prev_comm` has room for only 16, so they are never equal, at byte 13",
        ),
        (
            "text == \"a\\n\"",
            "the kernel takes no control characters in a filter, at byte 8",
        ),
        (
            "(tiny & vec) == 1",
            "the kernel combines the bits of a field with a number only, at byte 6",
        ),
        (
            "(tiny & 1) < 1",
            "the kernel compares bits of `tiny` only with == and !=, at byte 11",
        ),
    ] {
        check(filter, expected);
    }
}

#[test]
fn a_wrong_name_is_told_with_the_nearest() {
    let missing = MissingField {
        position: 4,
        name: "prev_pri".into(),
    };
    assert_eq!(
        no_such_field(&missing, &event()).to_string(),
        "sched_switch has no field `prev_pri` (did you mean prev_prio?); it has prev_comm, prev_tid, tiny, args, text, vec, \
         prev_prio, prev_state, prev_state_raw, name, and every event has $tid, $comm and $cpu, at byte 4"
    );
    let filter = Filter::parse("name == \"eth0\"").expect("a filter");
    assert_eq!(
        never_true(&filter, &event()).to_string(),
        "no sched_switch event can match it; `name` is the name of the event, and `$payload.name` its field, at byte 0"
    );
}

#[test]
fn the_kernels_limits_are_kept() {
    let long = vec!["prev_pid == 100"; 230].join(" || ");
    let error = translated(&long).expect_err("it is too long");
    assert!(error.reason.contains("the kernel allows 4095"), "{error}");
    let text = format!("text == \"{}\"", "x".repeat(256));
    let error = translated(&text).expect_err("it is too long");
    assert!(error.reason.contains("the kernel allows 255"), "{error}");
    assert_eq!(
        any(&["a == 1".into(), "b == 2".into()]).as_deref(),
        Some("(a == 1) || (b == 2)")
    );
    assert_eq!(any(&[long.clone(), long]), None);
}
