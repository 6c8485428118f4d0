// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel does on all CPUs, and whether a hypervisor is below it.

use std::path::Path;

use super::{Check, Machine};
use crate::cpus::named;
use crate::witness::steal_since_boot;

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// Real-time threads may be stopped for ordinary ones.
pub(super) fn throttling(machine: &Machine) -> Check {
    const NAME: &str = "real-time throttling";
    let number = |file: &str| -> Option<i64> { machine.text(&format!("proc/sys/kernel/{file}"))?.parse().ok() };
    let (Some(runtime_us), Some(period_us)) = (number("sched_rt_runtime_us"), number("sched_rt_period_us")) else {
        return Check::unknown(NAME, "the kernel does not say");
    };
    if runtime_us < 0 || runtime_us >= period_us {
        return Check::ok(NAME, "off");
    }
    let taken_ms = (period_us - runtime_us) as f64 / 1000.0;
    Check::wrong(
        NAME,
        format!("real-time threads get {runtime_us} µs of each {period_us} µs"),
        format!("a loop with a real-time policy may stop for {taken_ms} ms, so that other threads get the CPU"),
        "sudo sysctl -w kernel.sched_rt_runtime_us=-1",
    )
}

/// Where the kernel can be preempted.
pub(super) fn preemption(machine: &Machine) -> Check {
    const NAME: &str = "preemption";
    const COST: &str = "a system call of another thread may keep the CPU for milliseconds";
    const OTHER_KERNEL: &str = "use a kernel with PREEMPT_RT (Debian: `apt install linux-image-rt-amd64`)";
    let version = machine.text("proc/sys/kernel/version");
    let Some(version) = version.or_else(|| machine.text("proc/version")) else {
        return Check::unknown(NAME, "the kernel does not say");
    };
    let has = |word: &str| version.split([' ', '_']).any(|part| part == word);
    if machine.text("sys/kernel/realtime").as_deref() == Some("1") || version.contains("PREEMPT_RT") {
        return Check::ok(NAME, "PREEMPT_RT");
    }
    if version.contains("PREEMPT_DYNAMIC") {
        // "none voluntary (full)"
        let modes = machine.text("sys/kernel/debug/sched/preempt");
        let mode = modes
            .as_deref()
            .and_then(|modes| Some(modes.split_once('(')?.1.split_once(')')?.0));
        return match mode {
            None => Check::unknown(
                NAME,
                "dynamic; the current mode is in /sys/kernel/debug/sched/preempt, which only root can read, if debugfs is mounted",
            ),
            Some("full") => Check::wrong(NAME, "full, but not PREEMPT_RT", COST_OF_LOCKS, OTHER_KERNEL),
            Some(mode) => Check::wrong(NAME, mode, COST, "echo full | sudo tee /sys/kernel/debug/sched/preempt"),
        };
    }
    match has("PREEMPT") {
        true => Check::wrong(NAME, "full, but not PREEMPT_RT", COST_OF_LOCKS, OTHER_KERNEL),
        false => Check::wrong(NAME, "none or voluntary", COST, OTHER_KERNEL),
    }
}

const COST_OF_LOCKS: &str = "interrupt handlers and the kernel's spinlocks cannot be preempted";

/// What the kernel reads the time from.
pub(super) fn clock_source(machine: &Machine) -> Check {
    const NAME: &str = "clock source";
    let Some(current) = machine.text(&format!("{CLOCK_SOURCE}/current_clocksource")) else {
        return Check::unknown(NAME, "the kernel does not say");
    };
    if !["hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"].contains(&&*current) {
        return Check::ok(NAME, current);
    }
    let available = machine.text(&format!("{CLOCK_SOURCE}/available_clocksource"));
    let has_tsc = available.is_some_and(|all| all.split_ascii_whitespace().any(|name| name == "tsc"));
    let fix = match has_tsc {
        true => format!("echo tsc | sudo tee /{CLOCK_SOURCE}/current_clocksource"),
        false => "look for \"clocksource\" in `dmesg`: it says why the kernel does not trust the faster tsc".into(),
    };
    Check::wrong(
        NAME,
        current,
        "reading the time takes a microsecond or more, in a system call",
        fix,
    )
}

/// A machine of which others have a part.
pub(super) fn virtual_machine(machine: &Machine) -> Check {
    const NAME: &str = "virtual machine";
    match is_virtual_here(machine) {
        None => Check::unknown(NAME, "the kernel does not say whether this is one"),
        Some(false) => Check::ok(NAME, "no"),
        Some(true) => {
            let stat = machine.text("proc/stat").unwrap_or_default();
            let cpus = &machine.measured;
            let steal = match steal_since_boot(&stat, cpus) {
                Some(steal) => format!(
                    "{} ms of {} went to others since it started",
                    steal.as_millis(),
                    named(cpus)
                ),
                None => "how much of the CPUs goes to others is unknown".into(),
            };
            Check::wrong(
                NAME,
                format!("yes; {steal}"),
                "the hypervisor may take a CPU away at any time, and not all of that is reported as steal",
                "measure on the host, or give this machine CPUs of its own there",
            )
        }
    }
}

/// Whether a machine is known to be virtual.
pub fn is_virtual(root: &Path) -> bool {
    let machine = Machine {
        root: root.to_owned(),
        measured: Vec::new(),
    };
    is_virtual_here(&machine).unwrap_or(false)
}

fn is_virtual_here(machine: &Machine) -> Option<bool> {
    if machine.text("sys/hypervisor/type").is_some_and(|kind| !kind.is_empty()) {
        return Some(true);
    }
    let flags = machine.text("proc/cpuinfo")?;
    // Only x86 says it there.
    let flags = flags.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::checked;

    #[test]
    fn throttling_is_a_part_of_a_period() {
        let with = |runtime| {
            let files = [
                ("proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ];
            checked(&files, "real-time throttling")
        };
        assert_eq!(with("-1\n").level, Level::Ok);
        let bad = with("950000\n");
        assert_eq!(bad.level, Level::Wrong);
        assert!(bad.cost.is_some_and(|cost| cost.contains("for 50 ms")));
    }

    #[test]
    fn models_of_preemption_are_told_apart() {
        let version = |text| ("proc/sys/kernel/version", text);
        let modes = |text| ("sys/kernel/debug/sched/preempt", text);
        for (files, level, value) in [
            (vec![version("#1 SMP PREEMPT_RT Debian\n")], Level::Ok, "PREEMPT_RT"),
            (
                vec![version("#1 SMP PREEMPT Debian\n")],
                Level::Wrong,
                "full, but not PREEMPT_RT",
            ),
            (vec![version("#1 SMP Debian\n")], Level::Wrong, "none or voluntary"),
            (
                vec![version("#1 SMP PREEMPT_DYNAMIC\n"), modes("none (voluntary) full\n")],
                Level::Wrong,
                "voluntary",
            ),
            (
                vec![version("#1 SMP PREEMPT_DYNAMIC\n"), modes("none voluntary (full)\n")],
                Level::Wrong,
                "full, but not PREEMPT_RT",
            ),
        ] {
            let check = checked(&files, "preemption");
            assert_eq!((check.level, &*check.value), (level, value));
        }
        assert_eq!(
            checked(&[version("#1 SMP PREEMPT_DYNAMIC\n")], "preemption").level,
            Level::Unknown
        );
    }

    #[test]
    fn slow_clock_sources_are_named() {
        let folder = "sys/devices/system/clocksource/clocksource0";
        let (current, available) = (
            format!("{folder}/current_clocksource"),
            format!("{folder}/available_clocksource"),
        );
        let with = |source, others| checked(&[(&*current, source), (&available, others)], "clock source");
        assert_eq!(with("tsc\n", "tsc hpet\n").level, Level::Ok);
        assert_eq!(with("arch_sys_counter\n", "arch_sys_counter\n").level, Level::Ok);
        let fix = |source, others| with(source, others).fix.expect("there is one");
        assert!(fix("hpet\n", "tsc hpet\n").starts_with("echo tsc"));
        assert!(fix("hpet\n", "hpet acpi_pm\n").contains("dmesg"));
    }

    #[test]
    fn virtual_machines_show_their_steal() {
        let flags = |text| ("proc/cpuinfo", text);
        let stat = ("proc/stat", "cpu2 1 2 3 4 5 6 7 10 0 0\ncpu3 1 2 3 4 5 6 7 2 0 0\n");
        assert_eq!(
            checked(&[flags("flags : fpu tsc\n"), stat], "virtual machine").level,
            Level::Ok
        );
        let guest = checked(&[flags("flags : fpu hypervisor\n"), stat], "virtual machine");
        assert_eq!(
            (guest.level, &*guest.value),
            (Level::Wrong, "yes; 120 ms of CPUs 2-3 went to others since it started")
        );
        assert_eq!(
            checked(&[flags("Features : fp\n"), stat], "virtual machine").level,
            Level::Unknown
        );
        assert_eq!(
            checked(&[("sys/hypervisor/type", "xen\n")], "virtual machine").level,
            Level::Wrong
        );
    }
}
