// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves interrupts of devices, and work that the kernel may do anywhere, to the other CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use piste_reason::reason;

use super::journal::Journal;
use super::{Division, Steps, set, text};
use crate::cpus::{list, named, parse};
use crate::preflight::numbered;

/// Moves the interrupts that may arrive on the measured CPUs, and those that drivers will ask for.
pub(super) fn move_away(journal: &mut Journal, steps: &mut Steps, root: &Path, division: &Division) {
    let folder = root.join("proc/irq");
    let mut moved = 0;
    let mut refused: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for interrupt in numbered(&folder, "") {
        let path = folder.join(interrupt.to_string()).join("smp_affinity_list");
        let Ok(old) = text(&path) else { continue };
        let Some(new) = without(&parse(&old).unwrap_or_default(), division) else {
            continue;
        };
        match set(journal, &path, &old, &list(&new)) {
            Ok(()) => moved += 1,
            Err(error) => refused.entry(reason(&error)).or_default().push(interrupt),
        }
    }
    if moved > 0 {
        let s = if moved == 1 { "" } else { "s" };
        steps
            .taken
            .push(format!("{moved} interrupt{s} moved to {}", named(&division.others)));
    }
    for (reason, interrupts) in refused {
        steps.not_possible.push(format!(
            "interrupts {} may still arrive on {}: the kernel does not move them ({reason})",
            list(&interrupts),
            named(&division.measured)
        ));
    }
    move_masked(
        journal,
        steps,
        &folder.join("default_smp_affinity"),
        division,
        "new interrupts go",
    );
    if is_running(root, "irqbalance") {
        steps.not_possible.push(
            "irqbalance is running and may move interrupts back; stop it meanwhile: `systemctl stop irqbalance`".into(),
        );
    }
}

/// Moves the kernel's work that is bound to no CPU.
pub(super) fn move_work(journal: &mut Journal, steps: &mut Steps, root: &Path, division: &Division) {
    let path = root.join("sys/devices/virtual/workqueue/cpumask");
    move_masked(journal, steps, &path, division, "unbound kernel work goes");
}

/// A setting that is a mask of CPUs.
fn move_masked(journal: &mut Journal, steps: &mut Steps, path: &Path, division: &Division, what: &str) {
    let Ok(old) = text(path) else {
        return;
    };
    let Some(new) = without(&cpus_of(&old), division) else {
        return;
    };
    let others = named(&new);
    match set(journal, path, &old, &mask(&new)) {
        Ok(()) => steps.taken.push(format!("{what} to {others}")),
        Err(error) => steps.not_possible.push(format!(
            "cannot write to {}, by which {what} to {others}: {}",
            path.display(),
            reason(&error)
        )),
    }
}

/// CPUs without the measured ones; `None` if none of them is among them.
fn without(cpus: &[u32], division: &Division) -> Option<Vec<u32>> {
    let kept: Vec<u32> = cpus
        .iter()
        .copied()
        .filter(|cpu| !division.measured.contains(cpu))
        .collect();
    match kept.len() == cpus.len() {
        true => None,
        false if kept.is_empty() => Some(division.others.clone()),
        false => Some(kept),
    }
}

/// The CPUs of a mask such as `3` or `f,ffffffff`: hexadecimal, 32 CPUs in each group, the first ones last.
fn cpus_of(mask: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for (group, digits) in (0_u32..).zip(mask.rsplit(',')) {
        let bits = u32::from_str_radix(digits, 16).unwrap_or(0);
        cpus.extend((0..32).filter(|bit| bits & 1 << bit != 0).map(|bit| group * 32 + bit));
    }
    cpus
}

/// The mask of some CPUs.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let bits = |group: u32| {
        let of_group = cpus.iter().filter(|cpu| *cpu / 32 == group);
        of_group.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let groups: Vec<String> = (0..groups).rev().map(|group| format!("{:08x}", bits(group))).collect();
    groups.join(",")
}

/// Whether a program runs.
fn is_running(root: &Path, name: &str) -> bool {
    let proc = root.join("proc");
    numbered(&proc, "").into_iter().any(|process| {
        fs::read_to_string(proc.join(process.to_string()).join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_and_written_as_the_kernel_does() {
        for (cpus, text) in [
            (vec![0, 1], "00000003"),
            (vec![31], "80000000"),
            (vec![0, 32, 65], "00000002,00000001,00000001"),
        ] {
            assert_eq!(mask(&cpus), text);
            assert_eq!(cpus_of(text), cpus);
        }
        assert_eq!(cpus_of("f"), [0, 1, 2, 3]);
    }

    #[test]
    fn interrupts_and_work_leave_the_measured_cpus_and_come_back() {
        let root = tempfile::tempdir().expect("a folder");
        let files = [
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("proc/irq/24/smp_affinity_list", "0-3\n"),
            ("proc/irq/25/smp_affinity_list", "2\n"),
            ("proc/irq/26/smp_affinity_list", "1\n"),
            ("proc/irq/default_smp_affinity", "f\n"),
            ("proc/7/comm", "irqbalance\n"),
            ("sys/devices/virtual/workqueue/cpumask", "f\n"),
            ("run/piste-latency.journal", ""),
        ];
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        let read = |file: &str| text(&root.path().join(file)).expect("readable");
        let all = || files[1..7].iter().map(|(file, _)| read(file)).collect::<Vec<_>>();
        let before = all();
        let (mut preparation, left) = super::super::Preparation::begin(root.path()).expect("nobody else does");
        assert_eq!(left, None);
        let division = Division {
            measured: vec![2, 3],
            others: vec![0, 1],
        };
        move_away(&mut preparation.journal, &mut preparation.steps, root.path(), &division);
        move_work(&mut preparation.journal, &mut preparation.steps, root.path(), &division);
        assert!(read("proc/irq/24/smp_affinity_list").starts_with("0-1"));
        assert_eq!(read("proc/irq/26/smp_affinity_list"), "1");
        assert_eq!(
            preparation.taken(),
            [
                "2 interrupts moved to CPUs 0-1",
                "new interrupts go to CPUs 0-1",
                "unbound kernel work goes to CPUs 0-1"
            ]
        );
        let [only] = preparation.not_possible() else {
            panic!("{preparation:?}")
        };
        assert!(only.contains("irqbalance"), "{only}");
        let restored = preparation.restore();
        assert_eq!((restored.undone, restored.problems.len()), (4, 0), "{restored:?}");
        assert_eq!(all(), before);
    }
}
