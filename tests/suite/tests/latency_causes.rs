// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency --threshold`: it stops at a value that is too long, and names the cause that was planted. The causes here keep a loop or a
//! program for longer than anything else that happens on a machine that works.

use std::fs;

use piste_support::kernel::{KernelWorkplace, workplace};
use piste_support::process::allowed_cpu;
use piste_support::report::text;
use piste_support::{Running, Workplace};
use serde_json::{Value, json};

/// A mask of the CPUs where the kernel receives packets of the loopback interface; 0: where they are sent.
const RECEIVING_CPUS: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

/// A place to plant causes; whoever watches needs a CPU, too.
fn place_to_plant() -> Option<KernelWorkplace> {
    let place = workplace()?;
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        return Some(place);
    }
    println!("skipped: this needs two CPUs");
    None
}

/// Measures until a value is too long; what was found out about it.
fn crossing(place: &Workplace, options: &str) -> Value {
    let output = place.path("snapshots");
    let options = format!("latency {options} --duration 24h --output {}", text(&output));
    let report = place.piste_json(&options.split(' ').collect::<Vec<_>>());
    let crossing = report["crossings"][0].clone();
    let causes = crossing["causes"].as_array().unwrap_or_else(|| panic!("{report}"));
    let sum = |key: &str| -> f64 { causes.iter().map(|cause| cause[key].as_f64().expect("a number")).sum() };
    assert_eq!(Some(sum("ns")), crossing["duration_ns"].as_f64(), "{crossing}");
    assert!((sum("share_percent") - 100.0).abs() < 1.0, "{crossing}");
    // The snapshot is a trace that others read, and nothing else is left of the flight recorder.
    let trace = crossing["trace"].as_str().expect("a folder");
    assert!(trace.starts_with(text(&output)), "{crossing}");
    assert!(
        place.piste_json(&["stats", trace])["events"].as_u64() > Some(0),
        "{crossing}"
    );
    assert_eq!(place.piste_json(&["list", "--sessions"]), json!({ "sessions": [] }));
    crossing
}

#[track_caller]
fn expect(crossing: &Value, cause: &str, names: &[&str]) {
    let first = &crossing["causes"][0];
    let what = first["what"].as_str().expect("a text");
    let is_named = first["cause"] == cause && names.iter().all(|name| what.contains(name));
    assert!(is_named, "{cause} {names:?}: {crossing:#}");
}

fn disturb(place: &Workplace, kind: &str, cpu: &str) -> Running {
    let mut disturbs = place.start(place.program("disturbs.c"), &[kind, cpu]);
    assert_eq!(disturbs.line(), "ready");
    disturbs
}

#[test]
fn a_thread_of_higher_priority_is_named() {
    let Some(place) = place_to_plant() else { return };
    let cpu = allowed_cpu();
    let _hog = disturb(&place, "hog", &cpu);
    let hog = ["preempted by disturbs (", "), real-time priority 90"];
    let npt = crossing(&place, &format!("npt --policy fifo:50 --threshold 30ms --cpus {cpu}"));
    expect(&npt, "preempted", &hog);
    fs::remove_dir_all(place.path("snapshots")).expect("it is there");
    // The timer's interrupt comes while the hog has the CPU, which keeps it.
    let timer = crossing(&place, &format!("timer --policy fifo:50 --threshold 20ms --cpus {cpu}"));
    expect(&timer, "ready", &["ready to run, but disturbs ("]);
}

/// Where packets of the loopback interface are received, until this goes.
struct Receiving(String);

impl Receiving {
    fn on(cpu: &str) -> Option<Receiving> {
        let before = fs::read_to_string(RECEIVING_CPUS).ok()?;
        let mask = 1_u64 << cpu.parse::<u32>().expect("a number");
        fs::write(RECEIVING_CPUS, format!("{mask:x}")).ok()?;
        Some(Receiving(before))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let _ = fs::write(RECEIVING_CPUS, &self.0);
    }
}

#[test]
fn soft_interrupts_are_named() {
    let Some(place) = place_to_plant() else { return };
    let cpu = allowed_cpu();
    let Some(_receiving) = Receiving::on(&cpu) else {
        println!("skipped: this kernel does not steer packets ({RECEIVING_CPUS})");
        return;
    };
    let _packets = disturb(&place, "packets", &cpu);
    let npt = crossing(&place, &format!("npt --policy fifo:50 --threshold 1ms --cpus {cpu}"));
    expect(&npt, "soft_interrupt", &["softirq NET_RX"]);
}

#[test]
fn the_longest_values_are_kept_while_the_loop_goes_on() {
    let Some(place) = place_to_plant() else { return };
    let cpu = allowed_cpu();
    let _hog = disturb(&place, "hog", &cpu);
    let snapshots = place.path("snapshots");
    // Five values a second.
    let options = format!("latency npt --policy fifo:50 --threshold 30ms --worst 2 --duration 2s --cpus {cpu}");
    let options: Vec<&str> = options.split(' ').chain(["--output", text(&snapshots)]).collect();
    let report = place.piste_json(&options);
    assert!(report["crossing_count"].as_u64() > Some(2), "{report}");
    let crossings = report["crossings"].as_array().expect("a list");
    let durations: Vec<u64> = crossings.iter().filter_map(|one| one["duration_ns"].as_u64()).collect();
    assert!(durations.len() == 2 && durations[0] >= durations[1], "{report}");
    let longest = report["cpus"][0]["max_ns"].as_f64().expect("a number");
    assert!((longest - durations[0] as f64).abs() < 2.0, "{report}");
    // What nobody needs is gone.
    let kept = fs::read_dir(&snapshots).expect("it is there").count();
    assert!((1..=2).contains(&kept), "{kept} snapshots");
}

#[test]
fn page_faults_of_a_program_are_named() {
    let Some(place) = place_to_plant() else { return };
    let _delays = place.start(place.program("delays.c"), &["faults", &allowed_cpu()]);
    let program = "program --event delays:begin --end-event delays:end --threshold 3ms";
    let found = crossing(&place, program);
    expect(&found, "page_fault", &["page faults"]);
    // Each page of the 64 MiB is one.
    assert!(found["page_faults"].as_u64() > Some(10_000), "{found}");
}

#[test]
fn the_holder_of_a_lock_and_who_keeps_it_from_running_are_named() {
    let Some(place) = place_to_plant() else { return };
    let _delays = place.start(place.program("delays.c"), &["lock", &allowed_cpu()]);
    let program = "program --event delays:begin --end-event delays:end --threshold 10ms";
    let found = crossing(&place, program);
    expect(
        &found,
        "other_ready",
        &[
            "waited for holder (",
            "ready to run, but hog (",
            "real-time priority 30",
        ],
    );
}

#[test]
fn without_a_flight_recorder_the_counters_of_the_kernel_remain() {
    let place = Workplace::new();
    let mut command = place.command(piste_support::build_tree::binary("piste"));
    // No pisted can make its run folder there.
    command.env("PISTE_RUNDIR", "/dev/null/none");
    command.args(["--json", "latency", "npt", "--threshold", "1us", "--duration", "24h"]);
    command.args(["--cpus", &allowed_cpu(), "--output", text(&place.path("snapshots"))]);
    let finished = piste_support::process::run(&mut command);
    let report: Value = serde_json::from_str(&finished.expect_success().stdout).expect("JSON");
    let crossing = &report["crossings"][0];
    assert!(
        crossing["why_unexplained"].is_string() && crossing["causes"].is_null(),
        "{report}"
    );
    assert!(
        report["notes"].to_string().contains("no flight recorder runs"),
        "{report}"
    );
    assert!(!place.path("snapshots").exists(), "nothing was written");
}

#[test]
fn a_program_that_keeps_its_limit_is_said_to() {
    let Some(place) = place_to_plant() else { return };
    let _delays = place.start(place.program("delays.c"), &["faults", &allowed_cpu()]);
    let options = "latency program --event delays:begin --end-event delays:end --threshold 24h --duration 1s";
    let options: Vec<&str> = options.split(' ').collect();
    let place_of_output = ["--output", text(&place.path("snapshots"))].map(str::to_owned);
    let output: Vec<&str> = place_of_output.iter().map(String::as_str).collect();
    let said = place.piste_succeeds(&[&options[..], &output].concat());
    assert!(said.contains("there were no durations of more than"), "{said}");
    assert!(!place.path("snapshots").exists(), "nothing was written");
}
