// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judgement of what recording the kernel takes.

use super::Check;
use super::facts::{Facts, TracefsFacts};
use super::idle::IdleEnds;
use piste_syscalls::Architecture;

/// Bytes of the default rings of a channel, for each CPU: 256 sub-buffers of 64 KiB.
const RING_BYTES: u64 = 256 * (64 << 10);
const BUILD: &str = "use a kernel built with";

/// The checks, the most general first. What cannot be seen without tracefs is not judged.
pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![
        kernel(facts),
        lockdown(facts),
        container(facts),
        tracefs(facts),
        people(facts),
    ];
    if let Ok(files) = &facts.tracefs {
        checks.extend([
            events(files),
            formats(files),
            idle_cpus(files),
            soft_interrupts(facts.is_realtime),
            syscalls(files, facts.architecture),
            following(files),
            subbuffers(files),
        ]);
    }
    checks.extend([clock(facts), memory(facts)]);
    if let Ok(files) = &facts.tracefs {
        checks.extend([uprobes(files), kprobes(files), user_stacks(files)]);
    }
    checks.push(counters(facts));
    checks
}

/// Major and minor number: `(6, 18)`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kernel(facts: &Facts) -> Check {
    let value = format!("Linux {}", facts.release);
    match version(&facts.release) {
        Some((5, 10..)) | Some((6.., _)) => Check::ok("kernel", value),
        Some(_) => Check::lack("kernel", value)
            .cost("kernels before 5.10 are untested; recording the kernel may fail")
            .mend("use Linux 5.10 or later"),
        None => Check::note("kernel", value).cost("its version is unknown; each feature is checked separately"),
    }
}

fn lockdown(facts: &Facts) -> Check {
    match facts.lockdown.as_deref() {
        None => Check::ok("lockdown", "not in this kernel"),
        Some("confidentiality") => Check::lack("lockdown", "confidentiality")
            .cost("the kernel refuses all tracing; only programs can be recorded")
            .mend("boot with `lockdown=integrity`, or without `lockdown`, on the kernel command line"),
        Some(level) => Check::ok("lockdown", level),
    }
}

fn container(facts: &Facts) -> Check {
    match &*facts.container {
        [] => Check::ok("container", "none"),
        signs if !facts.is_in_pid_namespace => Check::ok(
            "container",
            format!("{}, with the host's pid namespace", signs.join(", ")),
        ),
        signs => Check::note("container", signs.join(", "))
            .cost("the kernel reports the process IDs of the host, which differ from those in the container")
            .mend("run pisted on the host, or start the container with the host's pid namespace (`--pid=host`)"),
    }
}

fn tracefs(facts: &Facts) -> Check {
    match &facts.tracefs {
        Ok(files) => Check::ok("tracefs", files.root.display().to_string()),
        Err(lack) => Check::lack("tracefs", &lack.reason)
            .cost("the kernel cannot be recorded, but programs can")
            .mend(&lack.mend),
    }
}

fn people(facts: &Facts) -> Check {
    const NAME: &str = "permission";
    match (facts.is_root, &facts.tracing_group) {
        (true, Some(members)) if members.is_empty() => {
            Check::ok(NAME, "pisted runs as root; the group `tracing` has no members")
        }
        (true, Some(members)) => Check::ok(NAME, format!("pisted runs as root, and also serves {}", members.join(", "))),
        (true, None) => Check::note(NAME, "pisted runs as root; there is no group `tracing`")
            .cost("only root can record the kernel")
            .mend(
                "`sudo groupadd --system tracing; sudo usermod -aG tracing NAME`; then NAME must log in again, and pisted must be restarted",
            ),
        (false, group) => {
            let make = if group.is_some() { "" } else { "sudo groupadd --system tracing; " };
            Check::lack(NAME, "this pisted does not run as root")
                .cost("it can record its user's programs, but not the kernel")
                .mend(format!(
                    "to use root's pisted, join the group `tracing` with `{make}sudo usermod -aG tracing $USER`, log in again, and start \
                     root's pisted with `sudo pisted --background`"
                ))
        }
    }
}

fn events(files: &TracefsFacts) -> Check {
    let value = format!("{} groups", files.groups);
    match files.files.contains("events/sched/sched_switch") {
        true => Check::ok("events", value),
        false => Check::lack("events", value)
            .cost("without the event sched_switch, traces do not show which thread ran when")
            .mend(format!("{BUILD} CONFIG_EVENT_TRACING")),
    }
}

fn idle_cpus(files: &TracefsFacts) -> Check {
    const NAME: &str = "idle CPUs";
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let IdleEnds { untold, unknown } = &files.idle_ends;
    match (&untold[..], &unknown[..]) {
        ([], []) => return Check::ok(NAME, "switches from idle to a thread are recorded"),
        ([], cpus) => {
            return Check::note(
                NAME,
                format!("unknown for CPU {}: never idle during the test", list(cpus)),
            )
            .cost("only a recording can show whether switches from idle to a thread are recorded there")
            .mend("run `piste doctor` while the machine is idle");
        }
        _ => {}
    }
    Check::note(NAME, format!("switches from idle to a thread are not recorded on CPU {}", list(untold)))
        .cost("a thread is known to be running there only from its first event on, and the time it waited for the CPU is unknown")
        .mend("restart the machine and do not take CPUs offline; a virtual machine that starts in this state needs a kernel other than Linux 6.18")
}

fn soft_interrupts(is_realtime: bool) -> Check {
    const NAME: &str = "soft interrupts";
    match is_realtime {
        false => Check::ok(NAME, "recorded with the thread that they interrupt"),
        true => Check::note(NAME, "run in kernel threads (PREEMPT_RT)")
            .cost(
                "the recording of a command contains no soft interrupts, because they run in threads such as ksoftirqd",
            )
            .mend("record the whole system: `piste record -a`"),
    }
}

fn formats(files: &TracefsFacts) -> Check {
    const NAME: &str = "event formats";
    match &*files.strange_events {
        [] => Check::ok(NAME, "the events have the fields that analyses need"),
        events => Check::note(NAME, events.join("; "))
            .cost("the events are recorded unchanged, but results that analyses derive from these fields are missing or wrong")
            .mend("report this to the Piste authors, with the version of the kernel"),
    }
}

fn syscalls(files: &TracefsFacts, architecture: Architecture) -> Check {
    const NAME: &str = "system calls";
    match files.files.contains("events/raw_syscalls/sys_enter") {
        true if architecture.has_tables() => Check::ok(NAME, "recorded"),
        true => Check::note(NAME, format!("recorded without names: Piste does not know the system call numbers of {}", architecture.name()))
            .cost("for each call, the trace has only the number and six arguments; you can record only all calls or none, and analyses cannot distinguish them"),
        false => Check::lack(NAME, "not in this kernel")
            .cost("system calls cannot be recorded")
            .mend(format!("{BUILD} CONFIG_FTRACE_SYSCALLS")),
    }
}

fn following(files: &TracefsFacts) -> Check {
    let has = |file| files.files.contains(file);
    match has("options/event-fork") && has("set_event_notrace_pid") {
        true => Check::ok("tracked processes", "followed by the kernel"),
        false => Check::lack("tracked processes", "the kernel cannot follow them")
            .cost("only the whole system can be recorded")
            .mend("use Linux 5.10 or later"),
    }
}

fn subbuffers(files: &TracefsFacts) -> Check {
    match files.files.contains("buffer_subbuf_size_kb") {
        true => Check::ok("sub-buffers", "any size from 4 KiB to 512 KiB"),
        false => Check::note("sub-buffers", "one page only")
            .cost("packets are small: there is a header for each 4 KiB, and reading them takes more system calls")
            .mend("use Linux 6.8 or later"),
    }
}

fn clock(facts: &Facts) -> Check {
    const NAME: &str = "clock";
    let can_record = facts
        .tracefs
        .as_ref()
        .is_ok_and(|files| files.clocks.iter().any(|clock| clock == "x86-tsc"));
    let is_used = facts.clock_source == "tsc";
    let slower = "the kernel and programs use CLOCK_MONOTONIC: their timestamps are comparable, but each event of a program takes longer to record";
    match (facts.architecture == Architecture::named("x86_64"), is_used) {
        (false, _) => Check::ok(NAME, format!("CLOCK_MONOTONIC from {}", facts.clock_source)),
        (true, true) if facts.tracefs.is_err() || can_record => Check::ok(NAME, "the CPU's time stamp counter (TSC)"),
        (true, true) => Check::lack(NAME, "the kernel cannot use the CPU's time stamp counter (TSC) for its events")
            .cost("the kernel cannot be recorded: pisted takes the timestamps of programs from this counter, and those of the kernel must come from it, too")
            .mend("use a kernel whose `trace_clock` lists x86-tsc"),
        (true, false) if !facts.is_counter_invariant => {
            Check::note(NAME, format!("CLOCK_MONOTONIC from {}; the CPU does not report that its time stamp counter (TSC) runs at a constant speed", facts.clock_source))
                .cost(slower)
                .mend(
                    "in a virtual machine, make the host's counter available to the guest (QEMU: `-cpu host,invtsc=on`); if you know that the \
                     counters of all CPUs are synchronized and run at the same speed, boot with `tsc=reliable` on the kernel command line",
                )
        }
        (true, false) if facts.clock_sources.iter().any(|source| source == "tsc") => {
            Check::note(NAME, format!("CLOCK_MONOTONIC from {}", facts.clock_source))
                .cost(slower)
                .mend("`echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource`, then restart pisted")
        }
        (true, false) => Check::note(NAME, format!("CLOCK_MONOTONIC from {}; the kernel found the CPUs' time stamp counters (TSC) unreliable, for example because they are not synchronized", facts.clock_source))
            .cost(slower)
            .mend("`sudo dmesg | grep -i tsc` shows why; if you know that the counters are synchronized, boot with `tsc=reliable` on the kernel command line"),
    }
}

fn memory(facts: &Facts) -> Check {
    let rings = RING_BYTES * facts.cpus_possible;
    let mib = |bytes: u64| bytes >> 20;
    let value = format!(
        "{} MiB available; the default rings of a channel need {} MiB on {} CPUs",
        mib(facts.available_bytes),
        mib(rings),
        facts.cpus_possible
    );
    let share = "use smaller rings: `piste enable-channel -k NAME --num-subbuf 64` needs a quarter of the memory";
    match rings {
        rings if rings > facts.available_bytes => Check::lack("memory", value)
            .cost("the rings cannot be allocated")
            .mend(share),
        rings if rings > facts.available_bytes / 4 => Check::note("memory", value)
            .cost("recording leaves little memory for the recorded programs")
            .mend(share),
        _ => Check::ok("memory", value),
    }
}

fn uprobes(files: &TracefsFacts) -> Check {
    match files.files.contains("uprobe_events") {
        true => Check::ok("uprobes", "available"),
        false => Check::note("uprobes", "not in this kernel")
            .cost("`--uprobe`, `--uretprobe` and `--usdt` do not work")
            .mend(format!("{BUILD} CONFIG_UPROBE_EVENTS")),
    }
}

fn kprobes(files: &TracefsFacts) -> Check {
    match files.files.contains("kprobe_events") {
        true => Check::ok("kprobes", "available"),
        false => Check::note("kprobes", "not in this kernel")
            .cost("`--kprobe` and `--kretprobe` do not work; the kernel's tracepoints do")
            .mend(format!("{BUILD} CONFIG_KPROBE_EVENTS")),
    }
}

fn user_stacks(files: &TracefsFacts) -> Check {
    match files.files.contains("options/userstacktrace") {
        true => Check::ok(
            "stacks of programs",
            "available, for programs built with frame pointers",
        ),
        false => Check::note("stacks of programs", "not in this kernel")
            .cost("`--callstack user` does not work")
            .mend(format!("{BUILD} CONFIG_USER_STACKTRACE_SUPPORT")),
    }
}

fn counters(facts: &Facts) -> Check {
    const NAME: &str = "hardware counters";
    match (facts.has_hardware_counters, facts.perf_paranoid) {
        (false, _) => Check::note(NAME, "not available, as in most virtual machines")
            .cost("benchmarks report times, but no cycles or misses; recording is not affected")
            .mend("make the CPU's counters available to the virtual machine (QEMU: `-cpu host,pmu=on`)"),
        (true, Some(paranoid)) if is_refused(paranoid, facts) => {
            Check::note(NAME, format!("perf_event_paranoid is {paranoid}"))
                .cost("benchmarks report times, but no cycles or misses; recording is not affected")
                .mend("`sudo sysctl kernel.perf_event_paranoid=2`")
        }
        (true, _) => Check::ok(NAME, "available"),
    }
}

/// Kernels of distributions refuse all perf events above this to those who have no right to more.
fn is_refused(paranoid: i32, facts: &Facts) -> bool {
    paranoid > 2 && !facts.is_root
}
