// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines that the tracers write, as the kernel's documentation has them (Documentation/trace/timerlat-tracer.rst, osnoise-tracer.rst):
//!
//! ```text
//!           <idle>-0       [000] d.h1    54.029328: #1     context    irq timer_latency       932 ns
//!            <...>-867     [000] ....    54.029339: #1     context thread timer_latency     11700 ns
//!            <...>-859     [000] ....    81.637220: 1000000        190  99.98100       9     18      0   1007     18      1
//! ```
//!
//! The name of a task may contain anything, so a line is read from the last `] ` before the time.

/// Where a timer's latency was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// In the handler of the timer's interrupt.
    Irq,
    /// In the thread that the handler woke.
    Thread,
    /// When a thread returned to user space (rtla's user threads).
    User,
}

/// A measurement of the timerlat tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimerLatency {
    /// On this CPU.
    pub(super) cpu: u32,
    /// Where.
    pub(super) context: Context,
    /// How late.
    pub(super) latency_ns: u64,
}

/// A period of the osnoise tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// On this CPU.
    pub cpu: u32,
    /// How long the thread ran.
    pub runtime_us: u64,
    /// How much of that something else had.
    pub noise_us: u64,
    /// The longest piece of it.
    pub longest_us: u64,
    /// How often the hardware or a hypervisor, an NMI, an interrupt, a soft interrupt, or a thread was the reason.
    pub reasons: [u64; 5],
}

impl Noise {
    /// Both periods together.
    pub(super) fn plus(&self, other: &Noise) -> Noise {
        Noise {
            cpu: self.cpu,
            runtime_us: self.runtime_us + other.runtime_us,
            noise_us: self.noise_us + other.noise_us,
            longest_us: self.longest_us.max(other.longest_us),
            reasons: std::array::from_fn(|index| self.reasons[index] + other.reasons[index]),
        }
    }
}

/// A line of the timerlat tracer; `None` for comments and for lines of other kinds.
pub(super) fn timer_latency(line: &str) -> Option<TimerLatency> {
    let (cpu, rest) = message(line)?;
    let mut words = rest.split_ascii_whitespace();
    // The number of the activation.
    words.next()?.strip_prefix('#')?;
    (words.next()? == "context").then_some(())?;
    let context = match words.next()? {
        "irq" => Context::Irq,
        "thread" => Context::Thread,
        "user-ret" => Context::User,
        _ => return None,
    };
    (words.next()? == "timer_latency").then_some(())?;
    let latency_ns = words.next()?.parse().ok()?;
    (words.next()? == "ns").then_some(TimerLatency {
        cpu,
        context,
        latency_ns,
    })
}

/// A line of the osnoise tracer; `None` for comments and for lines of other kinds.
pub(super) fn noise(line: &str) -> Option<Noise> {
    let (cpu, rest) = message(line)?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [runtime, noise, _part, longest, reasons @ ..] = &words[..] else {
        return None;
    };
    let number = |word: &&str| word.parse::<u64>().ok();
    let reasons: Vec<u64> = reasons.iter().map(number).collect::<Option<_>>()?;
    Some(Noise {
        cpu,
        runtime_us: number(runtime)?,
        noise_us: number(noise)?,
        longest_us: number(longest)?,
        reasons: reasons.try_into().ok()?,
    })
}

/// How many events of a CPU were lost, from a line such as `CPU:0 [LOST 12 EVENTS]`.
pub(super) fn lost(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" [LOST ")?;
    rest.strip_suffix(" EVENTS]")?.trim().parse().ok()
}

/// The CPU, and what stands behind the time.
fn message(line: &str) -> Option<(u32, &str)> {
    if line.starts_with('#') {
        return None;
    }
    let (before, after) = line.rsplit_once("] ")?;
    let (_, cpu) = before.rsplit_once('[')?;
    let (_flags_and_time, message) = after.split_once(": ")?;
    Some((cpu.parse().ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the kernel's documentation.
    const TIMERLAT: &str = "\
# tracer: timerlat
#
#                              _-----=> irqs-off
#           TASK-PID     CPU#  ||||   TIMESTAMP  ID            CONTEXT                LATENCY
#              | |         |   ||||      |         |                  |                       |
        <idle>-0       [000] d.h1    54.029328: #1     context    irq timer_latency       932 ns
         <...>-867     [000] ....    54.029339: #1     context thread timer_latency     11700 ns
        <idle>-0       [001] dNh1    54.029346: #1     context    irq timer_latency      2833 ns
         <...>-868     [001] ....    54.029353: #1     context thread timer_latency      9820 ns
";
    const OSNOISE: &str = "\
#           TASK-PID      CPU# ||||   TIMESTAMP   IN US       IN US  AVAILABLE  IN US     HW    NMI    IRQ   SIRQ THREAD
#              | |         |   ||||      |           |             |    |            |      |      |      |      |      |
           <...>-859     [000] ....    81.637220: 1000000        190  99.98100       9     18      0   1007     18      1
           <...>-860     [001] ....    81.638154: 1000000        656  99.93440      74     23      0   1006     16      3
";

    #[test]
    fn latencies_are_read_as_the_kernel_writes_them() {
        let all: Vec<TimerLatency> = TIMERLAT.lines().filter_map(timer_latency).collect();
        let latency = |cpu, context, latency_ns| TimerLatency {
            cpu,
            context,
            latency_ns,
        };
        assert_eq!(
            all,
            [
                latency(0, Context::Irq, 932),
                latency(0, Context::Thread, 11700),
                latency(1, Context::Irq, 2833),
                latency(1, Context::Thread, 9820)
            ]
        );
        let odd = "  a] [9] b: c-867     [012] d..1.    54.029339: #77    context user-ret timer_latency     5 ns";
        assert_eq!(
            timer_latency(odd),
            Some(TimerLatency {
                cpu: 12,
                context: Context::User,
                latency_ns: 5
            })
        );
        assert_eq!(OSNOISE.lines().filter_map(timer_latency).count(), 0);
    }

    #[test]
    fn noise_is_read_as_the_kernel_writes_it() {
        let all: Vec<Noise> = OSNOISE.lines().filter_map(noise).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[1],
            Noise {
                cpu: 1,
                runtime_us: 1_000_000,
                noise_us: 656,
                longest_us: 74,
                reasons: [23, 0, 1006, 16, 3]
            }
        );
        assert_eq!(TIMERLAT.lines().filter_map(noise).count(), 0);
        assert_eq!(lost("CPU:1 [LOST 12 EVENTS]"), Some(12));
        assert_eq!(lost(OSNOISE), None);
    }
}
