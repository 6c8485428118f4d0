// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste report`: the page is whole and harmless, and says what the other commands say.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use piste_support::build_tree::{binary, repository};
use piste_support::report::text;
use piste_support::{Workplace, kernel, process};
use serde_json::Value;

/// Three processes want the same CPU; one has markup as its name, and opens files with such names.
const PROGRAM: &str = "
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for number in range(3):
    if os.fork() == 0:
        if number == 0:
            open('/proc/self/comm', 'w').write('<b>&\"\\'</b>')
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            open('<script>alert(1)<', 'w').close()
        os._exit(0)
for number in range(3):
    os.wait()
time.sleep(0.05)
";

/// A page, made with these options.
fn report(place: &Workplace, trace: &str, options: &[&str]) -> String {
    let page = place.path("report.html");
    let arguments = [&["report", trace, "-o", text(&page)], options].concat();
    place.piste(&arguments).expect_success();
    fs::read_to_string(page).expect("a page")
}

/// Checks the page that was made last, and compares it with answers: `insights`, or an analysis and its table.
fn check(place: &Workplace, trace: &str, answers: &[&str], options: &[&str]) {
    let mut arguments = vec![text(&place.path("report.html")).to_owned()];
    for answer in answers {
        let command = match answer.split_once(':') {
            Some((analysis, _)) => vec!["analyze", analysis, trace],
            None => vec!["insights", trace],
        };
        let said = place.piste_json(&[&command, options].concat());
        let file = place.path(&answer.replace(':', "-"));
        fs::write(&file, said.to_string()).expect("it can be written");
        arguments.push(format!("{answer}={}", text(&file)));
    }
    let script = repository().join("tests/python/check_report.py");
    let checked = process::run(Command::new("python3").arg(script).args(arguments));
    assert_eq!(checked.expect_success().stdout.trim(), "", "{checked}");
}

/// A browser shows the page without asking for anything, and without running anything.
fn browse(page: &Path) {
    if !repository().join("viewer/node_modules/playwright-core").exists() {
        println!("skipped: the browser, which needs the viewer's packages of Node.js");
        return;
    }
    let mut command = Command::new("node");
    command.arg(repository().join("viewer/tests/report.mjs")).arg(page);
    process::run(&mut command).expect_success();
}

#[test]
fn a_report_says_what_insights_and_analyses_say() {
    let Some(place) = kernel::workplace() else { return };
    let recording = place.record_with_kernel(&["--no-user"], "python3", &["-c", PROGRAM]);
    recording.finished.expect_success();
    place.let_others_record();
    let trace = text(recording.trace().path()).to_owned();
    let answers = [
        "insights",
        "cputop:threads",
        "cputop:cpus",
        "syscallstats:syscalls",
        "schedstats:threads",
        "blocked:waits",
    ];
    let page = report(&place, &trace, &[]);
    check(&place, &trace, &answers, &[]);
    let insights = place.piste_json(&["insights", &trace]);
    assert!(
        !insights["insights"].as_array().expect("a list").is_empty(),
        "{insights}"
    );
    let kernel = rustix::system::uname();
    for said in [
        "Nothing was lost.",
        &format!("Linux {}", kernel.release().to_string_lossy()),
        // A thread of the program has a lane, and its name is text.
        "&lt;b&gt;&amp;&quot;'&lt;/b&gt;",
    ] {
        assert!(page.contains(said), "{said}");
    }
    browse(&place.path("report.html"));

    // A part of it.
    let part = ["--begin", "+100ms", "--end", "+400ms", "--title", "Half of <it>"];
    let page = report(&place, &trace, &part);
    check(&place, &trace, &answers, &part[..4]);
    assert!(page.contains("<title>Half of &lt;it&gt;</title>"), "{page:.2000}");
    assert!(page.contains("--begin +0.1s --end +0.4s"), "{page:.2000}");
}

#[test]
fn losses_are_said_and_counted() {
    let place = Workplace::new();
    let rings = ["--subbuf-size", "4K", "--num-subbuf", "2"];
    let recording = place.record(
        &[&["-u", "*"], &rings[..]].concat(),
        place.program("spans.c"),
        &["20000"],
    );
    let trace = text(recording.trace().path()).to_owned();
    let stats = place.piste_json(&["stats", &trace]);
    let lost = stats["discarded_events"].as_u64().expect("a number");
    assert!(lost > 0, "{stats}");
    let page = report(&place, &trace, &[]);
    check(&place, &trace, &[], &[]);
    assert!(!page.contains("Nothing was lost"), "{page:.3000}");
    assert!(
        page.contains(&format!("{} events were lost", with_separators(lost))),
        "{lost}: {page:.3000}"
    );
    // Hatched on the lanes of the program.
    assert!(page.contains("<path class=\"unknown\""), "{page:.3000}");
}

fn with_separators(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    groups.join(",")
}

#[test]
fn a_report_of_programs_alone_has_their_spans_and_events() {
    let place = Workplace::new();
    let options = ["-u", "work:*,step:begin", "--block", "forever"];
    let recording = place.record(&options, place.program("spans.c"), &["100"]);
    recording.expect_whole();
    let trace = text(recording.trace().path()).to_owned();
    let page = report(&place, &trace, &[]);
    check(&place, &trace, &[], &[]);
    for said in [
        "Insights need events of the kernel",
        "Spans by name",
        "Events by name",
        "work:round",
        "Programs, ",
    ] {
        assert!(page.contains(said), "{said}: {page:.6000}");
    }
    let spans = place.piste_succeeds(&[
        "query",
        "--format",
        "csv",
        &trace,
        "SELECT count(duration_ns) FROM spans WHERE name = 'work:round'",
    ]);
    let count = spans.lines().nth(1).expect("a count").to_owned();
    assert!(
        page.contains(&format!("<td>work:round</td><td class=\"number\">{count}</td>")),
        "{count}: {page:.9000}"
    );
}

/// Whoever writes a trace chooses every name in it.
#[test]
fn markup_in_names_of_hosts_and_events_is_text() {
    let place = Workplace::new();
    let options = ["-u", "work:*", "--block", "forever"];
    let recording = place.record(&options, place.program("spans.c"), &["10"]);
    recording.expect_whole();
    let folder = recording.trace().path().to_owned();
    let metadata = folder.join("user/metadata");
    let described = fs::read_to_string(&metadata).expect("text");
    let hostile = "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>";
    let host = "hostname = \"";
    let (before, rest) = described.split_once(host).expect("a host");
    let (_, after) = rest.split_once('"').expect("its end");
    let changed = format!("{before}{host}{hostile}\"{after}").replace("work:round", &format!("{hostile}:round"));
    assert!(changed.len() > described.len() + 100);
    fs::write(&metadata, changed).expect("it can be written");
    let trace = text(&folder).to_owned();
    let page = report(&place, &trace, &["--title", hostile]);
    check(&place, &trace, &[], &[]);
    assert!(page.matches("&lt;script&gt;").count() >= 5, "{page:.9000}");
    assert!(!page.contains("<script"), "{page:.9000}");
    browse(&place.path("report.html"));
}

#[test]
fn a_report_goes_where_it_is_sent() {
    let place = Workplace::new();
    let options = ["-u", "work:*", "--block", "forever"];
    let recording = place.record(&options, place.program("spans.c"), &["10"]);
    let trace = text(recording.trace().path()).to_owned();
    let page = place.path("report.html");
    let said = place.piste_json(&["report", &trace, "-o", text(&page)]);
    assert_eq!(said["bytes"], fs::metadata(&page).expect("a page").len(), "{said}");
    assert_eq!(
        (&said["insights"], &said["output"]),
        (&Value::from(0), &Value::from(text(&page))),
        "{said}"
    );

    let mut command = place.command(binary("piste"));
    let piped = process::run(command.args(["report", &trace, "-o", "-"]).stdin(Stdio::null()));
    piped.expect_silent_success();
    assert!(piped.stdout.starts_with("<!DOCTYPE html>"), "{piped}");

    for (arguments, status, why) in [
        (&["--json", "report", &trace, "-o", "-"][..], 2, "together with --json"),
        (&["report", &trace], 2, "--output"),
        (&["report", "nowhere", "-o", text(&page)], 1, "nowhere"),
        (
            &["report", &trace, "-o", "no/such/report.html"],
            1,
            "no such file or folder",
        ),
        (&["report", &trace, "-o", "."], 1, "it is a folder"),
        (
            &["report", &trace, "-o", text(&page), "--begin", "+2s", "--end", "+1s"],
            2,
            "swap them",
        ),
    ] {
        let failed = place.piste(arguments);
        assert_eq!(failed.status, status, "{arguments:?}: {failed}");
        assert!(failed.stderr.contains(why), "{arguments:?}: {failed}");
    }
    // What was there before is still there.
    assert_eq!(said["bytes"], fs::metadata(&page).expect("a page").len());
}
