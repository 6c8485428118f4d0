// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loaded program and its settings.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, ObjectBuilder, OpenObject, PrintLevel, set_print,
};

use piste_syscalls::copies::{CALL_COUNT, Call, TABLE_COUNT};
use piste_syscalls::filters::Filter;
use rustix::process::geteuid;

use crate::ring::Ring;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calls.bpf.o"));

/// What a recording is, for as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What records of entries begin with.
    pub entry_type: u16,
    /// What records of exits begin with.
    pub exit_type: u16,
    /// What records of exits begin with that have what could not be read at the entry.
    pub late_type: u16,
    /// Only what this user can read is copied. `None` is root, who can read all.
    pub user: Option<u32>,
    /// Bytes of the ring of each CPU: a power of two, and at least a page.
    pub ring_bytes: u32,
    /// Whoever waits for a ring is woken when it has so many bytes.
    pub wake_bytes: u32,
}

/// What a recording does at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Calls are recorded.
    pub is_on: bool,
    /// Only those of the threads that are tracked.
    pub is_selective: bool,
    /// And of those that tracked threads start.
    pub follows: bool,
    /// Only what happens on the CPUs that were chosen with [`Program::choose_cpus`].
    pub selects_cpus: bool,
    /// Not those of the processes that are hidden ([`Program::hide`]).
    pub hides: bool,
}

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// This Piste was compiled without it.
    #[error("this Piste was built without its BPF program")]
    NotBuilt,
    /// The kernel does not describe its types.
    #[error("this kernel has no BTF type information (/sys/kernel/btf/vmlinux is missing; CONFIG_DEBUG_INFO_BTF)")]
    NoTypes,
    /// This process may not.
    #[error("loading a BPF program requires root (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN)")]
    NotPermitted,
    /// The kernel refused it, for this reason.
    #[error("the kernel rejected the BPF program ({0})")]
    Refused(String),
}

/// The loaded program. It runs as long as somebody has it or it is [kept](Program::keep).
#[derive(Debug)]
pub struct Program {
    pub(crate) maps: Maps,
    /// By CPU.
    pub(crate) rings: Vec<MapHandle>,
    pub(crate) links: Vec<Link>,
}

/// What the program and its loader tell each other with (`bpf/calls.bpf.c`).
#[derive(Debug)]
pub(crate) struct Maps {
    switches: MapHandle,
    calls: MapHandle,
    filters: MapHandle,
    tracked: MapHandle,
    hidden: MapHandle,
    cpus: MapHandle,
    counts: MapHandle,
}

/// What the program could not do on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that found the ring full, or no memory.
    pub lost: u64,
    /// Threads that a tracked one started, and that the kernel had no memory to note.
    pub untracked: u64,
}

impl Failure {
    /// What makes it possible.
    pub fn mend(&self) -> &'static str {
        match self {
            Failure::NotBuilt => "install clang, and build Piste again, on x86-64",
            Failure::NoTypes => "use a kernel built with CONFIG_DEBUG_INFO_BTF",
            Failure::NotPermitted => "run pisted as root",
            Failure::Refused(_) => {
                "use a kernel built with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS; Linux 5.10 to 7.3 are known to work"
            }
        }
    }
}

impl Program {
    /// Whether it can be loaded here. Takes some milliseconds.
    ///
    /// # Errors
    /// Why not.
    pub fn check() -> Result<(), Failure> {
        let settings = Settings {
            entry_type: 0,
            exit_type: 0,
            late_type: 0,
            user: None,
            ring_bytes: 1 << 16,
            wake_bytes: 0,
        };
        Program::load(&settings, 1).map(drop)
    }

    /// Loads the program for `cpu_count` CPUs. It records nothing until [`Program::switch`].
    ///
    /// # Errors
    /// Why it cannot be loaded here.
    pub fn load(settings: &Settings, cpu_count: u32) -> Result<Program, Failure> {
        if OBJECT.is_empty() {
            return Err(Failure::NotBuilt);
        }
        listen();
        let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(failure)?;
        let rings = (0..cpu_count)
            .map(|_| ring(settings.ring_bytes))
            .collect::<libbpf_rs::Result<Vec<MapHandle>>>()
            .map_err(failure)?;
        prepare(&mut object, settings, cpu_count, rings.first()).map_err(failure)?;
        let object = object.load().map_err(failure)?;
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == name);
            MapHandle::try_from(&found.expect("the program has it")).map_err(failure)
        };
        let by_cpu = map("rings")?;
        for (cpu, ring) in (0_u32..).zip(&rings) {
            let descriptor = ring.as_fd().as_raw_fd();
            by_cpu
                .update(&cpu.to_ne_bytes(), &descriptor.to_ne_bytes(), MapFlags::ANY)
                .map_err(failure)?;
        }
        let mut program = Program {
            maps: Maps::of(map)?,
            rings,
            links: Vec::new(),
        };
        for part in object.progs_mut() {
            program.links.push(part.attach().map_err(failure)?);
        }
        Ok(program)
    }

    /// Turns recording on or off, and chooses whose calls are recorded.
    ///
    /// # Errors
    /// The kernel's.
    pub fn switch(&self, switches: Switches) -> io::Result<()> {
        let Switches {
            is_on,
            is_selective,
            follows,
            selects_cpus,
            hides,
        } = switches;
        let words = [is_on, is_selective, follows, selects_cpus, hides].map(|set| u32::from(set).to_ne_bytes());
        put(&self.maps.switches, &0_u32.to_ne_bytes(), words.as_flattened())
    }

    /// What it does at the moment.
    ///
    /// # Errors
    /// The kernel's.
    pub fn switches(&self) -> io::Result<Switches> {
        let found = self.maps.switches.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(io::Error::other)?.unwrap_or_default();
        let is_set = |index: usize| bytes.get(4 * index..4 * index + 4).is_some_and(|word| word != [0; 4]);
        Ok(Switches {
            is_on: is_set(0),
            is_selective: is_set(1),
            follows: is_set(2),
            selects_cpus: is_set(3),
            hides: is_set(4),
        })
    }

    /// Sets what is recorded of a call. [`CALL_COUNT`] less one stands for all numbers that are not smaller.
    ///
    /// # Errors
    /// The kernel's; or there is no such call.
    pub fn set_call(&self, table: usize, number: usize, call: &Call) -> io::Result<()> {
        if table >= TABLE_COUNT || number >= CALL_COUNT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let index = (table * CALL_COUNT + number) as u32;
        put(&self.maps.calls, &index.to_ne_bytes(), &call.bytes())
    }

    /// Sets the filter with this index.
    ///
    /// # Errors
    /// The kernel's; or there can be no such filter.
    pub fn set_filter(&self, index: u16, filter: &Filter) -> io::Result<()> {
        put(&self.maps.filters, &u32::from(index).to_ne_bytes(), &filter.bytes())
    }

    /// Records a thread, where only some are recorded.
    ///
    /// # Errors
    /// The kernel's.
    pub fn track(&self, tid: i32) -> io::Result<()> {
        put(&self.maps.tracked, &tid.to_ne_bytes(), &[1])
    }

    /// Records a thread no longer, where only some are recorded.
    ///
    /// # Errors
    /// The kernel's. That it was not recorded is none.
    pub fn untrack(&self, tid: i32) -> io::Result<()> {
        match self.maps.tracked.delete(&tid.to_ne_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }

    /// The threads that are recorded, where only some are. Those that start meanwhile may be missing.
    pub fn tracked(&self) -> Vec<i32> {
        let keys = self.maps.tracked.keys();
        keys.filter_map(|key| Some(i32::from_ne_bytes(key.try_into().ok()?)))
            .collect()
    }

    /// Records only what happens on these CPUs, where only some are recorded.
    ///
    /// # Errors
    /// The kernel's.
    pub fn choose_cpus(&self, chosen: &[u32]) -> io::Result<()> {
        let all = 0..self.maps.cpus.max_entries();
        all.into_iter().try_for_each(|cpu| {
            let is_chosen = u32::from(chosen.contains(&cpu));
            put(&self.maps.cpus, &cpu.to_ne_bytes(), &is_chosen.to_ne_bytes())
        })
    }

    /// Leaves a process out, where some are hidden.
    ///
    /// # Errors
    /// The kernel's.
    pub fn hide(&self, pid: i32) -> io::Result<()> {
        put(&self.maps.hidden, &pid.to_ne_bytes(), &[1])
    }

    /// Bytes of the ring of each CPU.
    pub fn ring_bytes(&self) -> u64 {
        self.rings.first().map_or(0, |ring| ring.max_entries().into())
    }

    /// The ring of a CPU.
    ///
    /// # Errors
    /// There is none, or it cannot be mapped.
    pub fn ring(&self, cpu: u32) -> io::Result<Ring> {
        let ring = self.rings.get(cpu as usize).ok_or(io::ErrorKind::NotFound)?;
        let bytes = ring.max_entries() as usize;
        Ring::open(ring.as_fd().try_clone_to_owned()?, bytes)
    }

    /// What the program could not do on a CPU so far.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self, cpu: u32) -> io::Result<Counts> {
        let found = self.maps.counts.lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(io::Error::other)?;
        let bytes = found.ok_or(io::ErrorKind::NotFound)?;
        let word = |index: usize| {
            let word = bytes.get(8 * index..).and_then(|bytes| bytes.first_chunk());
            word.map_or(0, |word| u64::from_ne_bytes(*word))
        };
        Ok(Counts {
            lost: word(0),
            untracked: word(1),
        })
    }
}

impl Maps {
    pub(crate) fn of<E>(map: impl Fn(&str) -> Result<MapHandle, E>) -> Result<Maps, E> {
        Ok(Maps {
            switches: map("switches")?,
            calls: map("calls")?,
            filters: map("filters")?,
            tracked: map("tracked")?,
            hidden: map("hidden")?,
            cpus: map("cpus")?,
            counts: map("counts")?,
        })
    }

    pub(crate) fn by_name(&mut self) -> [(&'static str, &mut MapHandle); 7] {
        [
            ("switches", &mut self.switches),
            ("calls", &mut self.calls),
            ("filters", &mut self.filters),
            ("tracked", &mut self.tracked),
            ("hidden", &mut self.hidden),
            ("cpus", &mut self.cpus),
            ("counts", &mut self.counts),
        ]
    }
}

fn prepare(
    object: &mut OpenObject,
    settings: &Settings,
    cpu_count: u32,
    ring: Option<&MapHandle>,
) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "counts" | "cpus" | "scratches" => map.set_max_entries(cpu_count)?,
            "rings" => {
                map.set_max_entries(cpu_count)?;
                if let Some(ring) = ring {
                    map.set_inner_map_fd(ring.as_fd())?;
                }
            }
            // The kernel has memory for as many at once as may be, also where there are few threads.
            "tracked" | "chosen" | "unread" => map.set_max_entries(thread_count_max(map.max_entries()))?,
            name if name.ends_with(".rodata") => map.set_initial_value(&settings.bytes())?,
            _ => {}
        }
    }
    Ok(())
}

/// Twice as many threads as the kernel lets there be, and has numbers for, which the administrator may raise; `most` where it does not say so.
/// The kernel clears memory for a table of that size when it makes the map.
fn thread_count_max(most: u32) -> u32 {
    let limit = |name: &str| -> Option<u32> {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        text.trim().parse().ok()
    };
    let allowed = ["threads-max", "pid_max"].into_iter().filter_map(limit).min();
    allowed.map_or(most, |allowed| allowed.saturating_mul(2).min(most))
}

impl Settings {
    fn bytes(&self) -> Vec<u8> {
        let words = [u32::from(self.user.is_some()), self.user.unwrap_or(0), self.wake_bytes];
        let types = [self.entry_type, self.exit_type, self.late_type, 0].map(u16::to_ne_bytes);
        let words = words.map(u32::to_ne_bytes);
        [types.as_flattened(), words.as_flattened()].concat()
    }
}

fn ring(bytes: u32) -> libbpf_rs::Result<MapHandle> {
    let options = bpf_map_create_opts {
        sz: mem::size_of::<bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("piste_ring"), 0, 0, bytes, &options)
}

fn put(map: &MapHandle, key: &[u8], value: &[u8]) -> io::Result<()> {
    map.update(key, value, MapFlags::ANY).map_err(io::Error::other)
}

fn failure(error: libbpf_rs::Error) -> Failure {
    match error.kind() {
        // The kernel says the same of a program that it does not take.
        ErrorKind::PermissionDenied if !geteuid().is_root() => Failure::NotPermitted,
        _ if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() => Failure::NoTypes,
        _ => Failure::Refused(verdict_of(&log()).unwrap_or_else(|| error.to_string())),
    }
}

/// The messages of libbpf about the latest load of a program, or their end. Otherwise libbpf prints them to standard error.
static SAID: Mutex<String> = Mutex::new(String::new());
/// How much of the messages is kept. The verifier's log of a rejected program is many MiB long, and its last lines say why.
const SAID_BYTES_MAX: usize = 64 << 10;

fn listen() {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    set_print(Some((PrintLevel::Warn, |_, text| {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        *said += &text;
        let least = said.len().saturating_sub(SAID_BYTES_MAX);
        let begin = (least..).find(|at| said.is_char_boundary(*at));
        said.drain(..begin.unwrap_or_default());
        said.shrink_to(SAID_BYTES_MAX);
    })));
}

/// The last messages of libbpf and the kernel about the latest load of a program.
pub fn log() -> String {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Why the kernel rejected the program: the last line of its log, but for the statistics.
fn verdict_of(said: &str) -> Option<String> {
    let (log, _) = said.rsplit_once("-- END PROG LOAD LOG --")?;
    let log = log.rsplit_once("-- BEGIN PROG LOAD LOG --").map_or(log, |(_, log)| log);
    let mut lines = log.lines().map(str::trim).rev();
    let last = lines.find(|line| !line.is_empty() && !line.starts_with("processed "))?;
    Some(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_the_last_line_of_the_log() {
        let said = "libbpf: prog 'record_entry': BPF program load failed: -EACCES
libbpf: prog 'record_entry': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
0: (79) r2 = *(u64 *)(r1 +0)
R2 invalid mem access 'scalar'
processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'record_entry': failed to load: -EACCES
";
        assert_eq!(verdict_of(said).as_deref(), Some("R2 invalid mem access 'scalar'"));
        let (_, end) = said.split_once("0: R1").expect("it is there");
        assert_eq!(verdict_of(end).as_deref(), Some("R2 invalid mem access 'scalar'"));
        assert_eq!(verdict_of("libbpf: failed to load object\n"), None);
    }
}
