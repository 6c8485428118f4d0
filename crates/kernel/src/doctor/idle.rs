// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel tells when a CPU turns from its idle thread to another one. Linux 6.18 does not once the CPU was offline; nothing but
//! trying shows it.

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

/// The CPUs of which no such turn is told, of these.
pub(super) fn untold(tracefs: &Tracefs, run_folder: &Path, cpus: &[u32]) -> io::Result<Vec<u32>> {
    let _alone = TRYING.lock().unwrap_or_else(PoisonError::into_inner);
    let owner = Owner::claim(run_folder)?;
    let instance = Instance::create_or_open(tracefs, &owner, SESSION, CHANNEL)?;
    let tried = sleep_on(&instance, cpus);
    let removed = instance.remove();
    let untold = tried?;
    removed.map(|()| untold)
}

fn sleep_on(instance: &Instance, cpus: &[u32]) -> io::Result<Vec<u32>> {
    let file = |file: &str| format!("events/sched/sched_switch/{file}");
    instance.write(file("filter"), "prev_pid == 0 || next_pid == 0")?;
    instance.write(file("enable"), "1")?;
    instance.set_on(true)?;
    // The CPUs that a thread may use are its own.
    let slept = thread::scope(|scope| scope.spawn(|| sleep_everywhere(cpus)).join());
    instance.set_on(false)?;
    let mut untold = Vec::new();
    for cpu in slept.unwrap_or_default() {
        if is_untold(&instance.read(format!("per_cpu/cpu{cpu}/trace"))?) {
            untold.push(cpu);
        }
    }
    Ok(untold)
}

/// Sleeps on one CPU after the other; tells on which it could.
fn sleep_everywhere(cpus: &[u32]) -> Vec<u32> {
    let could_sleep = |cpu: &u32| {
        if *cpu as usize >= CpuSet::MAX_CPU {
            return false;
        }
        let mut only = CpuSet::new();
        only.set(*cpu as usize);
        let is_there = sched_setaffinity(None, &only).is_ok();
        if is_there {
            (0..SLEEPS).for_each(|_| thread::sleep(SLEEP));
        }
        is_there
    };
    cpus.iter().copied().filter(could_sleep).collect()
}

/// Whether there are only turns to the idle thread in tracefs' text of a CPU's switches. Names of threads are shorter than what is looked for.
fn is_untold(text: &str) -> bool {
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    count(" next_pid=0 next_prio=") >= IDLE_MIN && count(" prev_pid=0 prev_prio=") == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_only_turns_to_idling_does_not_tell_all() {
        let to = "x-7 [001] d..2. 1.5: sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n";
        let from = "<idle>-0 [001] d..2. 1.6: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=x next_pid=7 next_prio=120\n";
        assert!(is_untold(&to.repeat(2)));
        assert!(!is_untold(to), "it may have been busy");
        assert!(!is_untold(&(to.repeat(3) + from)));
        assert!(!is_untold(""));
    }
}
