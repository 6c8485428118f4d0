// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of `piste latency`: plots, a page, and HdrHistogram's log. Each is read by something that Piste did not make.

use std::fs;
use std::process::Command;

use piste_support::Workplace;
use piste_support::build_tree::repository;
use piste_support::process::{self, allowed_cpu};
use piste_support::report::text;

/// Runs Python on a file; what it prints.
fn python(script: &str, file: &str) -> String {
    let checked = process::run(Command::new("python3").args(["-c", script, file]));
    checked.expect_success().stdout.trim().to_owned()
}

/// The heading of each plot of an SVG file, and the number of curves that are drawn in it.
const CURVES: &str = "
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
svg = '{http://www.w3.org/2000/svg}'
titles = [text.text for text in root.iter(svg + 'text') if text.get('class') == 'title']
plots = [group for group in root.iter(svg + 'g') if group.get('transform')]
curves = [sum(path.get('class').endswith(' line') and len(path.get('d')) > 8 for path in plot.iter(svg + 'path')) for plot in plots]
print(titles, curves, root.find(svg + 'style').text.count('prefers-color-scheme'))
";

#[test]
fn plots_are_drawn_for_every_loop() {
    let place = Workplace::new();
    let (cpu, file) = (allowed_cpu(), place.path("plots.svg"));
    for (options, has_time) in [
        ("timer --loops 100 --fail-above 1h", true),
        ("wakeup --loops 100", true),
        ("npt --loops 2000000 --clock monotonic", false),
    ] {
        let line = format!("latency {options} --cpus {cpu} --svg {}", text(&file));
        place.piste_succeeds(&line.split(' ').collect::<Vec<_>>());
        let drawn = python(CURVES, text(&file));
        let two = "['Histogram', 'Percentiles'";
        // A loop that nothing disturbed has no long gaps, and nothing over time.
        let is_right = drawn == format!("{two}, 'Largest values over time'] [1, 1, 1] 2")
            || !has_time && drawn == format!("{two}] [1, 1] 2");
        assert!(is_right, "{options}: {drawn}");
    }
}

#[test]
fn a_page_has_everything_and_asks_for_nothing() {
    let place = Workplace::new();
    let (cpu, file) = (allowed_cpu(), place.path("latency.html"));
    for options in [
        "gaps --loops 3000000 --threshold 1us --fail-above 1ns",
        "timer --loops 200 --load cpu",
        "wakeup --loops 100",
    ] {
        let line = format!("latency {options} --cpus {cpu} --html {}", text(&file));
        place.piste(&line.split(' ').collect::<Vec<_>>());
        let script = repository().join("tests/python/check_report.py");
        let checked = process::run(Command::new("python3").arg(script).arg(&file));
        assert_eq!(checked.expect_success().stdout.trim(), "", "{checked}");
        let page = fs::read_to_string(&file).expect("a page");
        for said in [
            "Kernel",
            "Command",
            "Figures",
            "Histogram",
            "Percentiles",
            "frequency governor",
        ] {
            assert!(page.contains(said), "{options}: {said}");
        }
        assert!(page.contains(&format!("latency {options}")), "the command: {options}");
    }
    if !repository().join("viewer/node_modules/playwright-core").exists() {
        println!("not tested: the browser, which needs the viewer's packages of Node.js");
        return;
    }
    let mut browser = Command::new("node");
    browser.arg(repository().join("viewer/tests/report.mjs")).arg(&file);
    process::run(&mut browser).expect_success();
}

/// A reader of HdrHistogram's log, from the description of the format: for each line its tag, and how many values it has.
const READER: &str = "
import base64, struct, sys, zlib
def counts(text):
    data = base64.b64decode(text)
    cookie, length = struct.unpack('>ii', data[:8])
    assert cookie & ~0xf0 == 0x1c849304 & ~0xf0, hex(cookie)
    data = zlib.decompress(data[8:8 + length])
    cookie, length = struct.unpack('>ii', data[:8])
    assert cookie & ~0xf0 == 0x1c849303 & ~0xf0, hex(cookie)
    data, total, place = data[40:40 + length], 0, 0
    while place < len(data):
        value, shift = 0, 0
        while True:
            byte = data[place]
            place += 1
            # The ninth byte has eight bits.
            value |= (byte if shift == 56 else byte & 0x7f) << shift
            shift += 7
            if shift > 56 or byte < 0x80:
                break
        value = (value >> 1) ^ -(value & 1)
        total += max(value, 0)
    return total
for line in open(sys.argv[1]):
    if line.startswith('Tag='):
        fields = line.strip().split(',')
        print(fields[0], counts(fields[4]))
";

#[test]
fn distributions_are_written_for_tools_of_hdrhistogram() {
    let place = Workplace::new();
    let (cpu, file) = (allowed_cpu(), place.path("latency.hlog"));
    for options in ["timer --loops 300 --interval 100us", "npt --loops 100000"] {
        let line = format!("latency {options} --cpus {cpu} --hdr-log {}", text(&file));
        place.piste_succeeds(&line.split(' ').collect::<Vec<_>>());
        let loops = options.split(' ').nth(2).expect("a number");
        assert_eq!(
            python(READER, text(&file)),
            format!("Tag=CPU{cpu} {loops}"),
            "{options}"
        );
        let log = fs::read_to_string(&file).expect("it is there");
        assert!(log.contains("#[StartTime: ") && log.contains("#[BaseTime: "), "{log}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let place = Workplace::new();
    for option in ["--svg", "--html", "--hdr-log"] {
        let refused = place.piste(&["latency", "timer", "--duration", "24h", option, "/nowhere/file"]);
        refused.expect_status(1);
        let reason = "cannot write /nowhere/file: no such file or folder";
        assert!(refused.stderr.contains(reason), "{refused}");
    }
}
