// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is set for each CPU: how fast it runs, how deeply it sleeps, with whom it shares a core, and who else may use it.

use std::collections::BTreeMap;

use super::{Check, Machine};
use crate::cpus::{list, named};

/// An idle state that takes longer to leave adds latency that people notice.
const EXIT_LATENCY_MAX_US: u64 = 10;
const CPU: &str = "sys/devices/system/cpu";

/// How the frequency is chosen.
pub(super) fn frequency(machine: &Machine) -> Check {
    const NAME: &str = "frequency governor";
    let governor = |cpu: &u32| machine.text(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"));
    let governors: Vec<Option<String>> = machine.measured.iter().map(governor).collect();
    let mut others: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (cpu, governor) in machine.measured.iter().zip(&governors) {
        match governor.as_deref() {
            None => return Check::unknown(NAME, format!("the kernel does not control the frequency of CPU {cpu}")),
            Some("performance") => {}
            Some(other) => others.entry(other).or_default().push(*cpu),
        }
    }
    if others.is_empty() {
        return Check::ok(NAME, "performance");
    }
    let values: Vec<String> = others
        .iter()
        .map(|(governor, cpus)| format!("{governor} on {}", named(cpus)))
        .collect();
    Check::wrong(
        NAME,
        values.join(", "),
        "a CPU that was idle begins slowly",
        format!("echo performance | sudo tee /{CPU}/cpu*/cpufreq/scaling_governor"),
    )
}

/// How deeply a CPU sleeps.
pub(super) fn idle_states(machine: &Machine) -> Check {
    const NAME: &str = "idle states";
    // Numbers of states, with the name and the exit latency of each.
    let mut deep: BTreeMap<u32, (String, u64)> = BTreeMap::new();
    for cpu in &machine.measured {
        let folder = format!("{CPU}/cpu{cpu}/cpuidle");
        let states = machine.numbered(&folder, "state");
        if states.is_empty() {
            return Check::unknown(NAME, format!("the kernel does not list the idle states of CPU {cpu}"));
        }
        for state in states {
            let file = |name: &str| machine.text(&format!("{folder}/state{state}/{name}"));
            let latency_us: u64 = file("latency").and_then(|text| text.parse().ok()).unwrap_or(0);
            let is_disabled = file("disable").is_some_and(|text| text != "0");
            if latency_us > EXIT_LATENCY_MAX_US && !is_disabled {
                deep.insert(state, (file("name").unwrap_or_default(), latency_us));
            }
        }
    }
    let Some((deepest, latency_us)) = deep.values().max_by_key(|(_, latency_us)| *latency_us) else {
        return Check::ok(NAME, format!("all take {EXIT_LATENCY_MAX_US} µs or less to leave"));
    };
    let numbers: Vec<String> = deep.keys().map(u32::to_string).collect();
    let states = match &numbers[..] {
        [one] => one.clone(),
        _ => format!("{{{}}}", numbers.join(",")),
    };
    Check::wrong(
        NAME,
        format!("{deepest} takes {latency_us} µs to leave"),
        "an idle CPU wakes up so much later, except during the loop `timer`, which prevents deep sleep",
        format!("echo 1 | sudo tee /{CPU}/cpu*/cpuidle/state{states}/disable"),
    )
}

/// CPUs of the same core.
pub(super) fn siblings(machine: &Machine) -> Check {
    const NAME: &str = "SMT";
    let mut shared = Vec::new();
    for cpu in &machine.measured {
        let Some(siblings) = machine.cpus(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")) else {
            return Check::unknown(
                NAME,
                format!("the kernel does not say with which CPUs CPU {cpu} shares its core"),
            );
        };
        if siblings.len() > 1 {
            shared.push(list(&siblings));
        }
    }
    shared.sort();
    shared.dedup();
    if shared.is_empty() {
        return Check::ok(
            NAME,
            format!("no other CPU shares a core with {}", named(&machine.measured)),
        );
    }
    Check::wrong(
        NAME,
        format!("CPUs share a core: {}", shared.join("; ")),
        "what runs on one of them slows down the other",
        format!("echo off | sudo tee /{CPU}/smt/control"),
    )
}

/// CPUs that the scheduler leaves alone.
pub(super) fn isolation(machine: &Machine) -> Check {
    const NAME: &str = "isolated CPUs";
    let Some(mut isolated) = machine.cpus(&format!("{CPU}/isolated")) else {
        return Check::unknown(NAME, "the kernel does not list them");
    };
    isolated.extend(machine.cpus("sys/fs/cgroup/cpuset.cpus.isolated").unwrap_or_default());
    isolated.extend(not_balanced(machine));
    isolated.sort();
    isolated.dedup();
    excluded(
        NAME,
        machine,
        &isolated,
        "the scheduler may run other threads there",
        "isolcpus=domain,managed_irq,",
    )
}

/// CPUs on which version 1 of cpusets balances no threads: the root set does not balance, nor does a set below it that has them.
fn not_balanced(machine: &Machine) -> Vec<u32> {
    const ROOT: &str = "sys/fs/cgroup/cpuset";
    if machine.text(&format!("{ROOT}/cpuset.sched_load_balance")).as_deref() != Some("0") {
        return Vec::new();
    }
    let mut cpus = machine.cpus(&format!("{CPU}/online")).unwrap_or_default();
    for set in machine.folders(ROOT) {
        if machine.text(&format!("{set}/cpuset.sched_load_balance")).as_deref() == Some("1") {
            let balanced = machine.cpus(&format!("{set}/cpuset.cpus")).unwrap_or_default();
            cpus.retain(|cpu| !balanced.contains(cpu));
        }
    }
    cpus
}

/// CPUs without a tick.
pub(super) fn tick(machine: &Machine) -> Check {
    const NAME: &str = "timer tick (nohz_full)";
    // Kernels that cannot do it have no such file.
    let Some(without) = machine.cpus(&format!("{CPU}/nohz_full")) else {
        return match machine.text("proc/version") {
            Some(_) => Check::wrong(
                NAME,
                "this kernel cannot stop it",
                "the timer interrupts each CPU that is busy, 100 to 1000 times a second",
                "use a kernel that has CONFIG_NO_HZ_FULL",
            ),
            None => Check::unknown(NAME, "the kernel does not say"),
        };
    };
    excluded(
        NAME,
        machine,
        &without,
        "the timer interrupts each CPU that is busy, 100 to 1000 times a second",
        "nohz_full=",
    )
}

/// The measured CPUs are to be among some.
fn excluded(name: &'static str, machine: &Machine, among: &[u32], cost: &str, parameter: &str) -> Check {
    let missing: Vec<u32> = machine
        .measured
        .iter()
        .copied()
        .filter(|cpu| !among.contains(cpu))
        .collect();
    if missing.is_empty() {
        return Check::ok(name, format!("{} among them", named(&machine.measured)));
    }
    let value = match among {
        [] => "none".to_owned(),
        _ => format!("{}, but not {}", list(among), named(&missing)),
    };
    let fix = match machine.others().is_empty() {
        true => "choose fewer CPUs with --cpus: at least one must be left for everything else".into(),
        false => format!("boot with the kernel parameter {parameter}{}", list(&machine.measured)),
    };
    Check::wrong(name, value, cost, fix)
}

/// Interrupts of devices that may arrive.
pub(super) fn interrupts(machine: &Machine) -> Check {
    const NAME: &str = "interrupt affinity";
    let mut known = 0;
    let mut may_arrive = Vec::new();
    for interrupt in machine.numbered("proc/irq", "") {
        let folder = format!("proc/irq/{interrupt}");
        // An empty list means that the interrupt is not in use.
        let effective = machine.cpus(&format!("{folder}/effective_affinity_list"));
        let effective = effective.filter(|cpus| !cpus.is_empty());
        let Some(cpus) = effective.or_else(|| machine.cpus(&format!("{folder}/smp_affinity_list"))) else {
            continue;
        };
        known += 1;
        if cpus.iter().any(|cpu| machine.measured.contains(cpu)) {
            may_arrive.push(interrupt);
        }
    }
    if known == 0 {
        return Check::unknown(NAME, "the kernel does not say where interrupts arrive");
    }
    if may_arrive.is_empty() {
        return Check::ok(NAME, format!("no device interrupts {}", named(&machine.measured)));
    }
    let others = machine.others();
    let fix = match others.is_empty() {
        true => "choose fewer CPUs with --cpus: interrupts must arrive somewhere".into(),
        false => format!(
            "for irq in {}; do echo {} | sudo tee /proc/irq/$irq/smp_affinity_list; done",
            may_arrive.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
            list(&others)
        ),
    };
    Check::wrong(
        NAME,
        format!(
            "{} of {known} interrupts may arrive on {}",
            may_arrive.len(),
            named(&machine.measured)
        ),
        "an interrupt takes microseconds, and some more if it wakes up a thread there",
        fix,
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::checked;

    const CPUS: [(&str, &str); 2] = [("sys/devices/system/cpu/online", "0-3\n"), ("proc/version", "Linux\n")];

    #[test]
    fn governors_other_than_performance_are_named() {
        let files = |one, other| {
            [
                ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", one),
                ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", other),
            ]
        };
        let good = checked(&files("performance\n", "performance\n"), "frequency governor");
        assert_eq!((good.level, &*good.value), (Level::Ok, "performance"));
        let bad = checked(&files("performance\n", "powersave\n"), "frequency governor");
        assert_eq!((bad.level, &*bad.value), (Level::Wrong, "powersave on CPU 3"));
        let unknown = checked(&files("performance\n", "performance\n")[..1], "frequency governor");
        assert_eq!(unknown.level, Level::Unknown);
    }

    #[test]
    fn deep_idle_states_are_named_unless_they_are_disabled() {
        let files = |disabled| {
            [
                ("sys/devices/system/cpu/cpu2/cpuidle/state0/latency", "0\n"),
                ("sys/devices/system/cpu/cpu2/cpuidle/state2/latency", "133\n"),
                ("sys/devices/system/cpu/cpu2/cpuidle/state2/name", "C6\n"),
                ("sys/devices/system/cpu/cpu2/cpuidle/state2/disable", disabled),
                ("sys/devices/system/cpu/cpu3/cpuidle/state0/latency", "0\n"),
            ]
        };
        let bad = checked(&files("0\n"), "idle states");
        assert_eq!((bad.level, &*bad.value), (Level::Wrong, "C6 takes 133 µs to leave"));
        assert_eq!(
            bad.fix.as_deref(),
            Some("echo 1 | sudo tee /sys/devices/system/cpu/cpu*/cpuidle/state2/disable")
        );
        assert_eq!(checked(&files("1\n"), "idle states").level, Level::Ok);
    }

    #[test]
    fn cpus_of_one_core_are_named() {
        let files = |siblings| {
            [
                ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", siblings),
                ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", siblings),
            ]
        };
        let bad = checked(&files("2-3\n"), "SMT");
        assert_eq!((bad.level, &*bad.value), (Level::Wrong, "CPUs share a core: 2-3"));
        assert_eq!(checked(&files("2\n"), "SMT").level, Level::Ok);
    }

    #[test]
    fn cpus_are_to_be_isolated_and_without_a_tick() {
        for (name, file, parameter) in [
            ("isolated CPUs", "isolated", "isolcpus=domain,managed_irq,2-3"),
            ("timer tick (nohz_full)", "nohz_full", "nohz_full=2-3"),
        ] {
            let file = format!("sys/devices/system/cpu/{file}");
            let with = |cpus| checked(&[&CPUS[..], &[(&file, cpus)]].concat(), name);
            assert_eq!(with("1-3\n").level, Level::Ok);
            assert_eq!(with("\n").value, "none");
            let bad = with("3\n");
            assert_eq!((bad.level, &*bad.value), (Level::Wrong, "3, but not CPU 2"));
            assert_eq!(bad.fix, Some(format!("boot with the kernel parameter {parameter}")));
        }
        let cannot = checked(&CPUS, "timer tick (nohz_full)");
        assert_eq!(cannot.value, "this kernel cannot stop it");
        let all = [
            ("sys/devices/system/cpu/online", "2-3"),
            ("sys/devices/system/cpu/isolated", ""),
        ];
        let fix = checked(&all, "isolated CPUs").fix.expect("there is one");
        assert!(fix.starts_with("choose fewer CPUs"), "{fix}");
        let partition = [
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/fs/cgroup/cpuset.cpus.isolated", "2-3\n"),
        ];
        assert_eq!(checked(&partition, "isolated CPUs").level, Level::Ok);
        let sets = |balanced| {
            [
                ("sys/devices/system/cpu/online", "0-3\n"),
                ("sys/devices/system/cpu/isolated", "\n"),
                ("sys/fs/cgroup/cpuset/cpuset.sched_load_balance", balanced),
                ("sys/fs/cgroup/cpuset/others/cpuset.sched_load_balance", "1\n"),
                ("sys/fs/cgroup/cpuset/others/cpuset.cpus", "0-1\n"),
                ("sys/fs/cgroup/cpuset/loops/cpuset.sched_load_balance", "0\n"),
                ("sys/fs/cgroup/cpuset/loops/cpuset.cpus", "2-3\n"),
            ]
        };
        assert_eq!(checked(&sets("0\n"), "isolated CPUs").level, Level::Ok);
        assert_eq!(checked(&sets("1\n"), "isolated CPUs").level, Level::Wrong);
    }

    #[test]
    fn interrupts_that_may_arrive_are_moved() {
        let files = |one, other| {
            [
                CPUS[0],
                ("proc/irq/24/effective_affinity_list", one),
                ("proc/irq/30/effective_affinity_list", "\n"),
                ("proc/irq/30/smp_affinity_list", other),
                ("proc/irq/default_smp_affinity", "f\n"),
            ]
        };
        let bad = checked(&files("3\n", "0-3\n"), "interrupt affinity");
        assert_eq!(
            (bad.level, &*bad.value),
            (Level::Wrong, "2 of 2 interrupts may arrive on CPUs 2-3")
        );
        assert_eq!(
            bad.fix.as_deref(),
            Some("for irq in 24 30; do echo 0-1 | sudo tee /proc/irq/$irq/smp_affinity_list; done")
        );
        assert_eq!(checked(&files("0\n", "0-1\n"), "interrupt affinity").level, Level::Ok);
    }
}
