// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel reports when a CPU switches away from its idle thread. Linux 6.18 no longer does so on a CPU that was offline once;
//! only trying it shows that.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::instance::Instance;
use crate::owner::Owner;
use crate::tracefs::Tracefs;

/// Of no session: theirs begin with 1.
const SESSION: u64 = 0;
const CHANNEL: &str = "doctor";
/// There is one instance.
static TRYING: Mutex<()> = Mutex::new(());

/// So often each CPU is left idle.
const SLEEPS: usize = 3;
const SLEEP: Duration = Duration::from_micros(300);
/// Others may use a CPU while this one sleeps there.
const IDLE_MIN: usize = 2;

/// Which CPUs do not tell such turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IdleEnds {
    pub(super) untold: Vec<u32>,
    /// Of these it is not known: they were never idle while it was tried.
    pub(super) unknown: Vec<u32>,
}

impl IdleEnds {
    /// Where nothing can be tried.
    pub(super) fn unknown(cpus: &[u32]) -> IdleEnds {
        IdleEnds {
            unknown: cpus.to_vec(),
            ..IdleEnds::default()
        }
    }
}

/// Tries it on these CPUs.
pub(super) fn look(tracefs: &Tracefs, run_folder: &Path, cpus: &[u32]) -> io::Result<IdleEnds> {
    let _alone = TRYING.lock().unwrap_or_else(PoisonError::into_inner);
    let owner = Owner::claim(run_folder)?;
    let instance = Instance::create_or_open(tracefs, &owner, SESSION, CHANNEL)?;
    let tried = sleep_on(&instance, cpus);
    let removed = instance.remove();
    let found = tried?;
    removed.map(|()| found)
}

fn sleep_on(instance: &Instance, cpus: &[u32]) -> io::Result<IdleEnds> {
    let file = |file: &str| format!("events/sched/sched_switch/{file}");
    instance.write(file("filter"), "prev_pid == 0 || next_pid == 0")?;
    instance.write(file("enable"), "1")?;
    instance.set_on(true)?;
    // The CPUs that a thread may use are its own.
    let _ = thread::scope(|scope| scope.spawn(|| sleep_everywhere(cpus)).join());
    instance.set_on(false)?;
    let mut found = IdleEnds::default();
    for &cpu in cpus {
        match are_told(&instance.read(format!("per_cpu/cpu{cpu}/trace"))?) {
            Some(true) => {}
            Some(false) => found.untold.push(cpu),
            None => found.unknown.push(cpu),
        }
    }
    Ok(found)
}

/// Sleeps on one CPU after the other, where it may.
fn sleep_everywhere(cpus: &[u32]) {
    for cpu in cpus
        .iter()
        .map(|cpu| *cpu as usize)
        .filter(|cpu| *cpu < CpuSet::MAX_CPU)
    {
        let mut only = CpuSet::new();
        only.set(cpu);
        if sched_setaffinity(None, &only).is_ok() {
            (0..SLEEPS).for_each(|_| thread::sleep(SLEEP));
        }
    }
}

/// Whether turns away from the idle thread are in tracefs' text of a CPU's switches; `None` when the CPU was hardly ever idle. Names of threads
/// are shorter than what is looked for.
fn are_told(text: &str) -> Option<bool> {
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    match (count(" prev_pid=0 prev_prio="), count(" next_pid=0 next_prio=")) {
        (1.., _) => Some(true),
        (0, IDLE_MIN..) => Some(false),
        (0, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_only_turns_to_idling_does_not_tell_all() {
        let to = "x-7 [001] d..2. 1.5: sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n";
        let from = "<idle>-0 [001] d..2. 1.6: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=x next_pid=7 next_prio=120\n";
        assert_eq!(are_told(&to.repeat(2)), Some(false));
        assert_eq!(are_told(to), None, "it may have been busy since");
        assert_eq!(are_told(&(to.repeat(3) + from)), Some(true));
        assert_eq!(are_told(""), None);
    }
}
