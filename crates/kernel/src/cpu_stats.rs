// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel counts in the ring of a CPU: `per_cpu/cpuN/stats`.

/// Since the instance was made, unless a line says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStats {
    /// Records in the ring now.
    pub entries: u64,
    /// Records that were overwritten before they were read.
    pub overrun: u64,
    /// Records that were discarded because interrupts filled the whole ring within one record.
    pub commit_overrun: u64,
    /// Bytes in the ring now.
    pub bytes: u64,
    /// Records that were discarded because the ring was full.
    pub dropped: u64,
    /// Records that were read.
    pub read: u64,
    /// When this was counted, in ticks of the ring's clock; of a clock that counts nanoseconds the kernel says no more than microseconds.
    pub now_ticks: u64,
}

impl CpuStats {
    /// Where an instance tells them.
    pub(crate) fn file(cpu: u32) -> String {
        format!("per_cpu/cpu{cpu}/stats")
    }

    /// From the text of the file; what it does not say is 0.
    pub fn parse(text: &str) -> Self {
        let mut stats = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let place = match name {
                "entries" => &mut stats.entries,
                "overrun" => &mut stats.overrun,
                "commit overrun" => &mut stats.commit_overrun,
                "bytes" => &mut stats.bytes,
                "dropped events" => &mut stats.dropped,
                "read events" => &mut stats.read,
                "now ts" => {
                    stats.now_ticks = ticks(value.trim());
                    continue;
                }
                _ => continue,
            };
            *place = value.trim().parse().unwrap_or(0);
        }
        stats
    }

    /// Records that were lost, in whatever way.
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }
}

/// `2731.000123` is seconds, of a clock that counts nanoseconds.
fn ticks(text: &str) -> u64 {
    let number = |text: &str| text.parse().unwrap_or(0);
    match text.split_once('.') {
        Some((seconds, microseconds)) => 1_000_000_000 * number(seconds) + 1000 * number(microseconds),
        None => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_apart() {
        let text = "entries: 1\noverrun: 20\ncommit overrun: 300\nbytes: 5\noldest event ts:  2724.130\nnow ts:  2731.000012\n\
                    dropped events: 4000\nread events: 6\n";
        let stats = CpuStats::parse(text);
        let expected = CpuStats {
            entries: 1,
            overrun: 20,
            commit_overrun: 300,
            bytes: 5,
            dropped: 4000,
            read: 6,
            now_ticks: 2_731_000_012_000,
        };
        assert_eq!(stats, expected);
        assert_eq!(CpuStats::parse("now ts: 123456789012\n").now_ticks, 123_456_789_012);
        assert_eq!(stats.lost(), 4320);
    }
}
