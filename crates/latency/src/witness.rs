// SPDX-License-Identifier: MIT OR Apache-2.0
//! What explains a gap: the counters of the kernel for the thread (switches, page faults) and its CPU (interrupts, steal), read after each gap
//! that is long enough to matter. What has changed since the previous look happened in the gap, because anything that takes a CPU away for a
//! while makes a gap.
//!
//! The files are read into memory that is there before the loop begins.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;

use crate::system::{ThreadCounters, thread_counters};

/// The list of interrupts has a column for each CPU. Where reading it takes longer than this, gaps would be lost while it is read.
const LOOK_MAX: Duration = Duration::from_millis(1);
/// Looks that show how long one takes.
const TRIES: usize = 5;
/// How many times as long as the quickest look any other takes: caches may be cold, an interrupt may come.
const SLOWEST_LOOK: u32 = 10;
/// More than a file grows to while a loop runs.
const SPARE_BYTES: usize = 4096;

/// What changed since the previous look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How often another thread had the CPU.
    pub switches: u64,
    /// Page faults of the thread.
    pub page_faults: u64,
    /// Interrupts of the CPU; absent if nobody counts them.
    pub interrupts: Option<u64>,
    /// The place, in [`crate::Measured::interrupt_names`], of the interrupt that came most often.
    pub interrupt: Option<u16>,
    /// Time that the hypervisor gave to others, as far as the kernel counts it; absent outside virtual machines.
    pub steal: Option<Duration>,
}

/// Whoever knows what happened in a gap.
pub(crate) trait Watch {
    /// What happened since the previous look.
    fn look(&mut self) -> Seen;
}

/// Nobody who looks, or somebody.
impl<W: Watch> Watch for Option<W> {
    fn look(&mut self) -> Seen {
        self.as_mut().map(Watch::look).unwrap_or_default()
    }
}

/// The counters of this thread and its CPU.
pub(crate) struct Witness {
    thread: ThreadCounters,
    interrupts: Option<Interrupts>,
    steal: Option<Steal>,
    quickest_look: Duration,
}

impl Witness {
    /// Counters of this thread, on a CPU. `root` has the machine's /proc.
    pub(crate) fn new(cpu: u32, root: &Path, is_virtual: bool) -> Witness {
        let mut witness = Witness {
            thread: thread_counters(),
            interrupts: Interrupts::open(&root.join("proc/interrupts"), cpu).ok().flatten(),
            steal: Steal::open(&root.join("proc/stat"), cpu).ok().filter(|_| is_virtual),
            quickest_look: Duration::ZERO,
        };
        witness.quickest_look = witness.try_looks();
        if witness.quickest_look > LOOK_MAX {
            witness.interrupts = None;
            witness.quickest_look = witness.try_looks();
        }
        witness
    }

    /// How long the quickest of a few looks takes.
    fn try_looks(&mut self) -> Duration {
        let looks = (0..TRIES).map(|_| {
            let began = Instant::now();
            self.look();
            began.elapsed()
        });
        looks.min().unwrap_or_default()
    }

    /// How long a look takes at most, unless something takes the CPU away meanwhile.
    pub(crate) fn look_max(&self) -> Duration {
        self.quickest_look * SLOWEST_LOOK
    }

    /// The names of the interrupts; empty if nobody counts them.
    pub(crate) fn interrupt_names(&self) -> Vec<String> {
        self.interrupts
            .as_ref()
            .map(|all| all.names.clone())
            .unwrap_or_default()
    }
}

impl Watch for Witness {
    fn look(&mut self) -> Seen {
        let thread = thread_counters();
        let mut seen = Seen {
            switches: thread.switches - self.thread.switches,
            page_faults: thread.page_faults - self.thread.page_faults,
            ..Seen::default()
        };
        self.thread = thread;
        seen.steal = self.steal.as_mut().and_then(|steal| steal.look().ok());
        if let Some((count, most)) = self.interrupts.as_mut().and_then(|all| all.look().ok()) {
            seen.interrupts = Some(count);
            seen.interrupt = most;
        }
        seen
    }
}

/// A file that is read again and again.
struct Reread {
    file: File,
    buffer: Vec<u8>,
    /// How much of the buffer is the file.
    bytes: usize,
}

impl Reread {
    fn open(path: &Path) -> io::Result<Reread> {
        let mut reread = Reread {
            file: File::open(path)?,
            buffer: vec![1; SPARE_BYTES],
            bytes: 0,
        };
        while reread.read()?.len() + SPARE_BYTES > reread.buffer.len() {
            let bytes = 2 * reread.buffer.len();
            reread.buffer.resize(bytes, 1);
        }
        Ok(reread)
    }

    /// The file as it is now, as far as there is room for it.
    fn read(&mut self) -> io::Result<&[u8]> {
        self.bytes = 0;
        loop {
            let count = self.file.read_at(&mut self.buffer[self.bytes..], self.bytes as u64)?;
            self.bytes += count;
            if count == 0 || self.bytes == self.buffer.len() {
                return Ok(&self.buffer[..self.bytes]);
            }
        }
    }
}

/// /proc/interrupts: a line for each interrupt, a column for each CPU that is online.
struct Interrupts {
    file: Reread,
    column: usize,
    counts: Vec<u64>,
    names: Vec<String>,
}

impl Interrupts {
    /// `None` if the CPU has no column.
    fn open(path: &Path, cpu: u32) -> io::Result<Option<Interrupts>> {
        let mut file = Reread::open(path)?;
        let text = file.read()?;
        let name = format!("CPU{cpu}");
        let heading = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let columns: Vec<&[u8]> = words(heading).collect();
        let Some(column) = columns.iter().position(|word| *word == name.as_bytes()) else {
            return Ok(None);
        };
        let counts = interrupt_counts(text, column).collect();
        let names = interrupt_lines(text)
            .map(|line| interrupt_name(line, columns.len()))
            .collect();
        Ok(Some(Interrupts {
            file,
            column,
            counts,
            names,
        }))
    }

    /// How many there were since the previous look, and the line that counted most of them.
    ///
    /// # Errors
    /// They are not known: the file cannot be read, or a driver has asked for an interrupt meanwhile, which adds a line.
    fn look(&mut self) -> io::Result<(u64, Option<u16>)> {
        let text = self.file.read()?;
        if interrupt_lines(text).count() != self.counts.len() {
            self.counts = interrupt_counts(text, self.column).collect();
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut sum, mut most, mut most_count) = (0, None, 0);
        // Otherwise the names do not fit any more.
        let is_as_before = self.counts.len() == self.names.len();
        for (line, (count, before)) in interrupt_counts(text, self.column).zip(&mut self.counts).enumerate() {
            let more = count.saturating_sub(*before);
            *before = count;
            sum += more;
            if more > most_count {
                (most, most_count) = (u16::try_from(line).ok(), more);
            }
        }
        Ok((sum, most.filter(|_| is_as_before)))
    }
}

/// The lines that count something on each CPU.
fn interrupt_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    // These two count errors of the interrupt controller, on no CPU.
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"ERR:") && !line.starts_with(b"MIS:"))
}

fn interrupt_counts(text: &[u8], column: usize) -> impl Iterator<Item = u64> {
    interrupt_lines(text).map(move |line| words(line).nth(1 + column).map_or(0, number))
}

/// `LOC: Local timer interrupts`, `36: virtio1-req.0`.
fn interrupt_name(line: &[u8], columns: usize) -> String {
    let mut all = words(line).map(String::from_utf8_lossy);
    let label = all.next().unwrap_or_default().into_owned();
    let rest: Vec<_> = all.skip(columns).collect();
    let is_device = label.starts_with(|c: char| c.is_ascii_digit());
    match (is_device, rest.last()) {
        (true, Some(device)) => format!("{label} {device}"),
        _ => format!("{label} {}", rest.join(" ")),
    }
}

/// The line of a CPU in /proc/stat.
struct Steal {
    file: Reread,
    label: String,
    ticks: u64,
}

impl Steal {
    fn open(path: &Path, cpu: u32) -> io::Result<Steal> {
        let mut steal = Steal {
            file: Reread::open(path)?,
            label: format!("cpu{cpu}"),
            ticks: 0,
        };
        steal.look()?;
        Ok(steal)
    }

    fn look(&mut self) -> io::Result<Duration> {
        let text = self.file.read()?;
        let ticks = steal_ticks(text, self.label.as_bytes()).ok_or(io::ErrorKind::InvalidData)?;
        let more = ticks.saturating_sub(self.ticks);
        self.ticks = ticks;
        Ok(Duration::from_millis(more * 1000 / clock_ticks_per_second().max(1)))
    }
}

/// The eighth number of a CPU's line: hundredths of seconds, on all machines of today.
fn steal_ticks(text: &[u8], label: &[u8]) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines.find(|line| words(line).next() == Some(label))?;
    words(line).nth(8).map(number)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn number(word: &[u8]) -> u64 {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| {
        number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
    })
}

/// How much the hypervisor took from some CPUs since the machine started; `None` if the kernel does not say.
pub(crate) fn steal_since_boot(stat: &str, cpus: &[u32]) -> Option<Duration> {
    let ticks = cpus
        .iter()
        .map(|cpu| steal_ticks(stat.as_bytes(), format!("cpu{cpu}").as_bytes()));
    let ticks: u64 = ticks.sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * 1000 / clock_ticks_per_second().max(1)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU2
 24:          1          5  IO-APIC   5-edge      ACPI:Ged
 36:          0      62807 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
LOC:     109862     114821   Local timer interrupts
ERR:          9
MIS:          0
TLB:         10         20   TLB shootdowns
";

    fn written(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).expect("it can be written");
        path
    }

    #[test]
    fn interrupts_of_one_cpu_are_counted_and_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = written(folder.path(), "interrupts", INTERRUPTS);
        assert!(
            Interrupts::open(&path, 1).expect("readable").is_none(),
            "CPU 1 is offline"
        );
        let mut interrupts = Interrupts::open(&path, 2).expect("readable").expect("a column");
        assert_eq!(
            interrupts.names,
            [
                "24: ACPI:Ged",
                "36: virtio1-req.0",
                "LOC: Local timer interrupts",
                "TLB: TLB shootdowns"
            ]
        );
        assert_eq!(interrupts.look().expect("readable"), (0, None));
        written(
            folder.path(),
            "interrupts",
            &INTERRUPTS.replace("114821", "114824").replace("  20  ", "  21  "),
        );
        assert_eq!(interrupts.look().expect("readable"), (4, Some(2)));
        // The other CPU's are not ours.
        written(
            folder.path(),
            "interrupts",
            &INTERRUPTS.replace("114821", "114824").replace("109862", "109999"),
        );
        assert_eq!(interrupts.look().expect("readable"), (0, None));
        // A driver has asked for one more.
        let with_another = INTERRUPTS.replace("LOC:", " 40:          0          7  eth0\nLOC:");
        written(folder.path(), "interrupts", &with_another);
        interrupts.look().expect_err("the lines are others");
        written(
            folder.path(),
            "interrupts",
            &with_another.replace("  7  eth0", "  9  eth0"),
        );
        assert_eq!(interrupts.look().expect("readable"), (2, None), "its name is not known");
    }

    #[test]
    fn steal_is_that_of_the_cpu() {
        let stat = "cpu  1 2 3 4 5 6 7 30 9 10\ncpu0 1 2 3 4 5 6 7 10 0 0\ncpu10 1 2 3 4 5 6 7 20 0 0\nintr 5\n";
        assert_eq!(steal_ticks(stat.as_bytes(), b"cpu10"), Some(20));
        assert_eq!(steal_ticks(stat.as_bytes(), b"cpu1"), None);
        assert_eq!(steal_since_boot(stat, &[0, 10]), Some(Duration::from_millis(300)));
        assert_eq!(steal_since_boot(stat, &[1]), None);
    }

    #[test]
    fn a_look_reports_what_changed_since_the_one_before() {
        let mut witness = Witness::new(0, Path::new("/"), false);
        witness.look();
        std::thread::sleep(Duration::from_millis(1));
        assert!(witness.look().switches >= 1);
    }
}
