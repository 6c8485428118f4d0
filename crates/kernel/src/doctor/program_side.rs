// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judgement of what recording programs takes.

use super::Check;
use super::facts::Facts;

/// Bytes of `struct rseq` with the concurrency id.
const RSEQ_WITH_CONCURRENCY_ID: u64 = 28;
/// What pisted opens for a few hundred programs.
const OPEN_FILES_ENOUGH: u64 = 4096;

pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    vec![
        rseq(facts),
        memfd(facts),
        futex(facts),
        run_folder(facts),
        open_files(facts),
    ]
}

fn rseq(facts: &Facts) -> Check {
    const NAME: &str = "rseq";
    let library = facts.c_library.as_deref().unwrap_or("not glibc");
    let mut numbers = library.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match (version >= (2, 35), facts.rseq_bytes >= RSEQ_WITH_CONCURRENCY_ID) {
        (true, true) => Check::ok(NAME, format!("with concurrency IDs; C library {library}")),
        (true, false) => Check::note(NAME, format!("without concurrency IDs; C library {library}"))
            .cost("programs have one ring for each CPU, which takes more memory if they have few threads")
            .mend("use Linux 6.3 or later"),
        (false, _) => Check::note(NAME, format!("not registered by the C library ({library})"))
            .cost("recording an event needs a call to get the current CPU")
            .mend("use glibc 2.35 or later"),
    }
}

fn memfd(facts: &Facts) -> Check {
    match &facts.memfd {
        Ok(()) => Check::ok("memfd", "available"),
        Err(error) => Check::lack("memfd", error)
            .cost("no program can be recorded, because rings are in memfds")
            .mend("allow memfd_create(2) in the container's seccomp profile, or use a kernel with CONFIG_MEMFD_CREATE"),
    }
}

fn futex(facts: &Facts) -> Check {
    match &facts.futex {
        Ok(()) => Check::ok("futex", "available"),
        Err(error) => Check::lack("futex", error)
            .cost("programs do not notice if pisted is started after them")
            .mend("allow futex(2) in the container's seccomp profile"),
    }
}

fn run_folder(facts: &Facts) -> Check {
    const ENOUGH_BYTES: u64 = 1 << 20;
    const NAME: &str = "run folder";
    let folder = facts.run_folder.display();
    match &facts.run_folder_free_bytes {
        Ok(bytes) if *bytes >= ENOUGH_BYTES => Check::ok(NAME, folder.to_string()),
        Ok(bytes) => Check::lack(NAME, format!("{folder}: {} KiB free", bytes >> 10))
            .cost("pisted loses its sessions when it is restarted")
            .mend("free at least 1 MiB there, or set PISTE_RUNDIR to another folder"),
        Err(error) => Check::lack(NAME, format!("{folder}: {error}"))
            .cost("programs cannot find pisted")
            .mend(format!(
                "create it with `sudo install -d -o $USER -m 700 {folder}`, or set PISTE_RUNDIR to another folder"
            )),
    }
}

fn open_files(facts: &Facts) -> Check {
    match facts.open_files_max {
        None => Check::ok("open files", "unlimited"),
        Some(count) if count >= OPEN_FILES_ENOUGH => Check::ok("open files", format!("{count}")),
        Some(count) => Check::note("open files", format!("{count}"))
            .cost("pisted can record only a few dozen programs at the same time")
            .mend("start pisted with `ulimit -n 65536`, or with LimitNOFILE=65536 in its systemd unit"),
    }
}
