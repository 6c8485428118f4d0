// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured on: its processor, kernel and tools, and what its hypervisor takes away.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::param::clock_ticks_per_second;
use rustix::thread::sched_getaffinity;

use crate::processes::{Patience, first_line_of};
use crate::report::Machine;

/// Tools that take part, and how each is asked for its version.
const TOOLS: [(&str, &str); 5] = [
    ("lttng", "--version"),
    ("perf", "--version"),
    ("bpftrace", "--version"),
    ("strace", "--version"),
    ("sysdig", "--version"),
];

/// This machine.
pub(crate) fn describe(compiler: Option<&Path>, patience: &Patience) -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let compiler = compiler.and_then(|path| Some(("cc", first_line_of(path, "--version", patience)?)));
    let tools = TOOLS
        .iter()
        .filter_map(|(tool, argument)| Some((*tool, first_line_of(tool, argument, patience)?)));
    let versions: BTreeMap<String, String> = compiler
        .into_iter()
        .chain(tools)
        .map(|(tool, line)| (tool.to_owned(), line))
        .collect();
    Machine {
        processor: value_of(&cpuinfo, "model name")
            .unwrap_or(std::env::consts::ARCH)
            .to_owned(),
        cpus: usable_cpus(),
        kernel: kernel.trim().to_owned(),
        is_virtual: value_of(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        versions,
    }
}

/// How many CPUs this process may use.
pub(crate) fn usable_cpus() -> u32 {
    sched_getaffinity(None).map_or(0, |set| set.count())
}

/// Of the first processor.
fn value_of<'t>(cpuinfo: &'t str, key: &str) -> Option<&'t str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
    Some(line.split_once(':')?.1.trim())
}

/// Time that the hypervisor has given to others, of all CPUs, since the machine started.
pub(crate) fn steal_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    steal_ticks(&text).unwrap_or(0) * 1_000_000_000 / clock_ticks_per_second().max(1)
}

/// `cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL`
fn steal_ticks(stat: &str) -> Option<u64> {
    stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU: fast\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(value_of(cpuinfo, "model name"), Some("Some CPU: fast"));
        assert_eq!(value_of(cpuinfo, "model"), None);
        assert_eq!(
            steal_ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0 0 0 0 0 0 0 0\n"),
            Some(8)
        );
        assert_eq!(steal_ticks(""), None);
    }
}
