// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads and CPUs an instance records.
//!
//! The kernel filters by thread, with two lists of an instance: it records threads of `set_event_pid` that are not in
//! `set_event_notrace_pid`, and with `event-fork` what they start inherits their places in the lists. A switch between threads is recorded
//! when either of the two is meant, a wake-up when the waker or the woken one is.
//!
//! | meant | kept by | exact |
//! |---|---|---|
//! | CPUs | the kernel | yes |
//! | processes with what they start | the kernel; what runs already is listed from /proc until nothing new is found | yes |
//! | processes alone | the kernel; a child that they start is dropped from the next [`Tracked::refresh`] on | its first moments too much |
//! | groups, sessions, users | [`Tracked::refresh`], and the kernel for what members start | what joins or leaves, until then |
//!
//! Users and groups of users are the real ones: those who started it. Numbers are those of the first pid namespace, as the kernel
//! records them.
//!
//! Nothing is remembered here. The list of the kernel itself holds a number that no thread can have, a stamp of what it was made for: while
//! that stays, threads that the kernel added are believed, orphans too; when it changes, they leave.

mod hiding;
mod processes;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::gettid;

pub use self::hiding::Hiding;
use crate::instance::Instance;
use crate::spec::Tracked;

const RECORDED: &str = "set_event_pid";
const HIDDEN: &str = "set_event_notrace_pid";
const FORK: &str = "options/event-fork";
const CPUS: &str = "tracing_cpumask";

/// Stamps are above every thread id (4,194,304) and below what the lists hold (1 << 30).
const STAMP_FIRST: u32 = 1 << 29;

/// How long /proc is searched until nothing new is found. Each look finds what was started during the last one by threads that were not known
/// then, which are few after the first.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// Thread ids in one write.
const WRITE_COUNT: usize = 512;

/// Makes `instance` record the threads and CPUs of `tracked` only. Knows nothing of earlier calls: asks the kernel what it records
/// now. Returns findings, each a sentence.
pub fn apply(instance: &Instance, tracked: &Tracked) -> Vec<String> {
    let mut findings = Vec::new();
    if let Err(error) = set_cpus(instance, &tracked.cpus, &mut findings) {
        findings.push(format!("cannot set the CPUs to record: {error}"));
    }
    let threads = match tracked.is_every_thread() {
        true => record_everything(instance),
        false => record(instance, tracked, &mut findings),
    };
    if let Err(error) = threads {
        findings.push(format!("cannot set the threads to record: {error}"));
    }
    findings
}

impl Tracked {
    /// Whether [`Tracked::refresh`] has something to do: some of it is kept up to date by looking.
    pub fn needs_refresh(&self) -> bool {
        !self.is_pids_only() || !self.pids.is_empty() && !self.follow_children
    }

    /// Looks for processes that began or ceased to be meant since the last time. Reads a file of each process of the machine (some 10 us
    /// each) unless only processes are meant; a few times in a second is often enough.
    pub fn refresh(&self, instance: &Instance) -> Vec<String> {
        if self.needs_refresh() {
            apply(instance, self)
        } else {
            Vec::new()
        }
    }

    fn is_every_thread(&self) -> bool {
        !self.nobody && self.pids.is_empty() && self.is_pids_only()
    }

    /// No other list is about threads.
    fn is_pids_only(&self) -> bool {
        let others = [&self.process_groups, &self.process_sessions, &self.uids, &self.gids];
        others.iter().all(|list| list.is_empty())
    }

    /// A number that no thread can have, for the threads that are meant.
    fn stamp(&self) -> u32 {
        let mut hasher = DefaultHasher::new();
        (
            &self.pids,
            self.follow_children,
            &self.process_groups,
            &self.process_sessions,
            &self.uids,
            &self.gids,
            self.nobody,
        )
            .hash(&mut hasher);
        STAMP_FIRST | (hasher.finish() as u32 & (STAMP_FIRST - 1))
    }
}

/// One of the two lists has threads until there is nothing left to do (hiding.rs says why), so this thread is left out from now on.
fn record_everything(instance: &Instance) -> io::Result<()> {
    // Whoever is hidden later is forgotten when it ends, and what it starts is hidden, too.
    follow_forks(instance)?;
    if !read_list(instance, RECORDED)?.is_empty() {
        instance.write(HIDDEN, "")?;
        append(instance, HIDDEN, &[gettid().as_raw_pid().cast_unsigned()])?;
    }
    // Also a list whose threads have all ended, which would record nobody.
    instance.write(RECORDED, "")
}

fn record(instance: &Instance, tracked: &Tracked, findings: &mut Vec<String>) -> io::Result<()> {
    follow_forks(instance)?;
    let stamp = tracked.stamp();
    let begun = Instant::now();
    let mut was_continued = None;
    loop {
        // The lists are read before /proc: what the kernel adds in between is then no stranger.
        let (recorded, hidden) = (read_list(instance, RECORDED)?, read_list(instance, HIDDEN)?);
        let is_unstamped = recorded.iter().all(|&id| id < STAMP_FIRST);
        let is_continued =
            is_unstamped && !recorded.is_empty() || recorded.contains(&stamp) && !hidden.contains(&stamp);
        if was_continued.is_none() && !is_continued {
            findings.extend(missing(tracked));
        }
        let was_continued = *was_continued.get_or_insert(is_continued);
        let mut believed = BTreeSet::new();
        if is_continued && tracked.follow_children {
            believed.extend(recorded.difference(&hidden).filter(|&&id| id < STAMP_FIRST));
        }
        let processes = processes::processes(tracked, &believed)?;
        let has_begun = recorded.is_empty() && begin_list(instance, stamp, &processes);
        if !has_begun {
            put_stamp(instance, &recorded, stamp, processes.is_empty())?;
        }
        let (mut wanted, is_complete) = add(instance, &processes, was_continued, begun)?;
        if tracked.is_pids_only() {
            wanted.extend(&believed);
        }
        wanted.insert(stamp);
        let strangers = recorded
            .difference(&wanted)
            .copied()
            .filter(|&id| id >= STAMP_FIRST || is_alive(id));
        let now_hidden = hidden
            .iter()
            .copied()
            .chain(strangers)
            .filter(|id| !wanted.contains(id))
            .collect();
        hide(instance, &hidden, &now_hidden)?;
        if is_complete && !has_begun {
            return Ok(());
        }
        if begun.elapsed() > SEARCH_MAX {
            findings.push("threads are started faster than they can be found; some may not be recorded".to_owned());
            return Ok(());
        }
    }
}

/// Writes the stamp together with the threads of `processes`, since the kernel changes a list that has some only after grace periods, which take a
/// twentieth of a second. Returns false if nothing was written: there are no threads, or kernels before 5.16 hold no stamp.
fn begin_list(instance: &Instance, stamp: u32, processes: &BTreeSet<u32>) -> bool {
    let threads = processes::threads(processes).into_iter().filter(|&id| is_alive(id));
    let threads: Vec<u32> = threads.take(WRITE_COUNT - 1).collect();
    !threads.is_empty() && append(instance, RECORDED, &[&[stamp], &threads[..]].concat()).is_ok()
}

/// Writes the stamp, unless it is there. It also keeps the list from being empty, which the kernel would take for every thread.
fn put_stamp(instance: &Instance, recorded: &BTreeSet<u32>, stamp: u32, is_nobody_meant: bool) -> io::Result<()> {
    if recorded.contains(&stamp) || instance.append(RECORDED, &format!("{stamp}\n")).is_ok() {
        return Ok(());
    }
    // Kernels before 5.16 hold no number that no thread can have. The last one is the rarest.
    if recorded.is_empty() && is_nobody_meant {
        let count = crate::tracefs::read(Path::new("/proc/sys/kernel/pid_max"))?;
        let last = count.trim().parse::<u32>().map_or(32767, |count| count - 1);
        instance.append(RECORDED, &format!("{last}\n"))?;
    }
    Ok(())
}

/// Adds the threads of `processes` to the recorded ones, and looks again until there is none to add. Returns all that were seen, and whether
/// none was added.
///
/// Reading the kernel's list can take a tenth of a second (ARCHITECTURE.md). If a thread that was listed has ended by then and is not in the list,
/// nobody knows whether it was followed, nor whether the threads are that it started, so another look is needed. Not when a selection goes on: the
/// kernel follows these threads, and the next refresh is another look.
fn add(
    instance: &Instance,
    processes: &BTreeSet<u32>,
    was_continued: bool,
    begun: Instant,
) -> io::Result<(BTreeSet<u32>, bool)> {
    let (mut seen, mut is_complete) = (BTreeSet::new(), true);
    loop {
        // The list is read behind /proc: what the kernel added to it in between is not new.
        let threads = processes::threads(processes);
        let recorded = read_list(instance, RECORDED)?;
        let unknown: Vec<u32> = threads.difference(&recorded).copied().collect();
        let new: Vec<u32> = unknown.iter().copied().filter(|&id| is_alive(id)).collect();
        append(instance, RECORDED, &new)?;
        seen.extend(threads);
        is_complete &= new.is_empty();
        if unknown.is_empty() || was_continued && new.is_empty() {
            return Ok((seen, is_complete));
        }
        if begun.elapsed() > SEARCH_MAX {
            return Ok((seen, false));
        }
    }
}

/// Changes the hidden threads from `hidden` to `now_hidden`, where only some threads are recorded. Nothing can be taken out of the list: then it is
/// written anew, and for a moment too much is recorded.
fn hide(instance: &Instance, hidden: &BTreeSet<u32>, now_hidden: &BTreeSet<u32>) -> io::Result<()> {
    if !hidden.is_subset(now_hidden) {
        instance.write(HIDDEN, "")?;
        return append(instance, HIDDEN, &now_hidden.iter().copied().collect::<Vec<_>>());
    }
    append(
        instance,
        HIDDEN,
        &now_hidden.difference(hidden).copied().collect::<Vec<_>>(),
    )
}

fn append(instance: &Instance, list: &str, ids: &[u32]) -> io::Result<()> {
    for ids in ids.chunks(WRITE_COUNT) {
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        instance.append(list, &text)?;
    }
    Ok(())
}

/// The threads that an instance records, where it records only some, in the order of their numbers; and a number that no thread has.
///
/// # Errors
/// The kernel's.
pub fn recorded_threads(instance: &Instance) -> io::Result<Vec<i32>> {
    // Nothing is taken out of the list of the recorded ones: those that are meant no longer are hidden.
    let (recorded, hidden) = (read_list(instance, RECORDED)?, read_list(instance, HIDDEN)?);
    Ok(recorded.difference(&hidden).copied().map(u32::cast_signed).collect())
}

fn read_list(instance: &Instance, list: &str) -> io::Result<BTreeSet<u32>> {
    let text = instance.read(list)?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// What a thread of a list starts comes into the list as well, and what ends leaves it.
fn follow_forks(instance: &Instance) -> io::Result<()> {
    match instance.read(FORK)?.trim() {
        "1" => Ok(()),
        _ => instance.write(FORK, "1"),
    }
}

fn is_alive(thread: u32) -> bool {
    Path::new("/proc").join(thread.to_string()).exists()
}

/// Processes that were asked for by number and are not there.
fn missing(tracked: &Tracked) -> Option<String> {
    let gone: Vec<String> = tracked
        .pids
        .iter()
        .filter(|&&pid| !is_alive(pid))
        .map(u32::to_string)
        .collect();
    match &*gone {
        [] => None,
        [pid] => Some(format!("there is no process {pid}")),
        pids => Some(format!("there are no processes {}", pids.join(", "))),
    }
}

fn set_cpus(instance: &Instance, cpus: &[u32], findings: &mut Vec<String>) -> io::Result<()> {
    let possible: BTreeSet<u32> = instance.cpus()?.into_iter().collect();
    let mut wanted = possible.clone();
    if !cpus.is_empty() {
        let strange: Vec<String> = cpus
            .iter()
            .filter(|cpu| !possible.contains(cpu))
            .map(u32::to_string)
            .collect();
        if !strange.is_empty() {
            findings.push(format!("this machine has no CPU {}", strange.join(", ")));
        }
        wanted.retain(|cpu| cpus.contains(cpu));
        if wanted.is_empty() {
            return Err(io::Error::other("none of them exists"));
        }
    }
    if parse_mask(&instance.read(CPUS)?) == wanted {
        return Ok(());
    }
    instance.write(CPUS, &mask(&wanted))
}

/// CPUs as the kernel writes them: words of 8 hex digits between commas, the highest first.
fn mask(cpus: &BTreeSet<u32>) -> String {
    let words = cpus.last().map_or(1, |last| last / 32 + 1);
    let word = |index: u32| {
        cpus.iter()
            .filter(|&&cpu| cpu / 32 == index)
            .fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let words: Vec<String> = (0..words).rev().map(|index| format!("{:08x}", word(index))).collect();
    words.join(",")
}

fn parse_mask(text: &str) -> BTreeSet<u32> {
    let words = text
        .trim()
        .rsplit(',')
        .map(|word| u32::from_str_radix(word, 16).unwrap_or(0));
    (0..)
        .zip(words)
        .flat_map(|(index, word)| {
            (0..32)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| index * 32 + bit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_the_kernel_writes_them() {
        for (cpus, text) in [
            (vec![0, 1], "00000003"),
            (vec![31, 32], "00000001,80000000"),
            (vec![70], "00000040,00000000,00000000"),
        ] {
            let cpus = BTreeSet::from_iter(cpus);
            assert_eq!(mask(&cpus), text);
            assert_eq!(parse_mask(text), cpus);
        }
        assert_eq!(parse_mask("3\n"), BTreeSet::from([0, 1]));
    }

    #[test]
    fn only_what_the_kernel_cannot_keep_is_looked_for() {
        let pids = Tracked {
            pids: vec![1],
            ..Tracked::default()
        };
        let followed = Tracked {
            follow_children: true,
            ..pids.clone()
        };
        let users = Tracked {
            uids: vec![0],
            ..followed.clone()
        };
        let nobody = Tracked {
            nobody: true,
            ..Tracked::default()
        };
        assert!(!Tracked::default().needs_refresh() && !followed.needs_refresh() && !nobody.needs_refresh());
        assert!(Tracked::default().is_every_thread() && !nobody.is_every_thread());
        assert!(pids.needs_refresh() && users.needs_refresh());
        assert_ne!(pids.stamp(), followed.stamp());
        assert!((STAMP_FIRST..1 << 30).contains(&users.stamp()));
    }
}
