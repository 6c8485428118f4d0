// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a trace is blind: parts of time in which events of a CPU are missing. What a thread did there is unknown.

use std::collections::BTreeMap;

/// A part of time in which events of a CPU are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The CPU; absent when nobody knows it, and every one is meant.
    pub cpu: Option<u32>,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here.
    pub end_ns: i64,
}

impl Gap {
    /// Events may be missing anywhere and at any time.
    pub const EVERYWHERE: Gap = Gap {
        cpu: None,
        begin_ns: i64::MIN,
        end_ns: i64::MAX,
    };
}

/// All of them. Those of one CPU are apart from each other and in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    all: Vec<Gap>,
    of_any: Vec<(i64, i64)>,
    /// Those of nobody knows which CPU.
    of_every: Vec<(i64, i64)>,
    /// Those and its own.
    by_cpu: BTreeMap<u32, Vec<(i64, i64)>>,
}

impl Gaps {
    /// Of a trace.
    pub fn new(gaps: &[Gap]) -> Gaps {
        let mut sorted = gaps.to_vec();
        sorted.sort_unstable_by_key(|gap| (gap.begin_ns, gap.cpu));
        let mut new = Gaps::default();
        sorted.into_iter().for_each(|gap| new.add(gap));
        new
    }

    /// One more. It costs little when it begins later than the others.
    pub fn add(&mut self, gap: Gap) {
        let place = self
            .all
            .partition_point(|known| (known.begin_ns, known.cpu) <= (gap.begin_ns, gap.cpu));
        self.all.insert(place, gap);
        self.add_untold(gap);
    }

    /// One more, as is in every trace, so that nobody has to be told of it.
    pub fn add_untold(&mut self, gap: Gap) {
        let part = (gap.begin_ns, gap.end_ns.max(gap.begin_ns));
        join(&mut self.of_any, part);
        match gap.cpu {
            Some(cpu) => {
                let own = self.by_cpu.entry(cpu).or_insert_with(|| self.of_every.clone());
                join(own, part);
            }
            None => {
                join(&mut self.of_every, part);
                self.by_cpu.values_mut().for_each(|own| join(own, part));
            }
        }
    }

    /// There is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.of_any.is_empty()
    }

    /// The blind part of a time: from the begin of the first gap in it to the end of the last. Only those of a CPU, when one is given.
    #[inline]
    pub fn within(&self, begin_ns: i64, end_ns: i64, cpu: Option<u32>) -> Option<(i64, i64)> {
        if self.is_empty() {
            return None;
        }
        self.search(begin_ns, end_ns, cpu)
    }

    fn search(&self, begin_ns: i64, end_ns: i64, cpu: Option<u32>) -> Option<(i64, i64)> {
        let gaps: &[(i64, i64)] = match cpu {
            Some(cpu) => self.by_cpu.get(&cpu).unwrap_or(&self.of_every),
            None => &self.of_any,
        };
        let first = gaps.partition_point(|(_, end)| *end <= begin_ns);
        let last = gaps.partition_point(|(begin, _)| *begin < end_ns);
        let inside = gaps.get(first..last)?;
        let (first, last) = (inside.first()?, inside.last()?);
        Some((first.0.max(begin_ns), last.1.min(end_ns)))
    }

    /// All that people should know of, in the order of their begins.
    pub fn all(&self) -> &[Gap] {
        &self.all
    }
}

/// Adds a part of time to others, which are apart from each other and stay so.
fn join(parts: &mut Vec<(i64, i64)>, (begin_ns, end_ns): (i64, i64)) {
    let first = parts.partition_point(|(_, end)| *end < begin_ns);
    let last = parts.partition_point(|(begin, _)| *begin <= end_ns);
    let joined = match parts.get(first..last) {
        Some([one, .., other]) => (one.0.min(begin_ns), other.1.max(end_ns)),
        Some([one]) => (one.0.min(begin_ns), one.1.max(end_ns)),
        _ => (begin_ns, end_ns),
    };
    parts.splice(first..last.max(first), [joined]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blind_part_reaches_from_the_first_gap_to_the_last() {
        let gap = |cpu, begin_ns, end_ns| Gap { cpu, begin_ns, end_ns };
        let gaps = Gaps::new(&[
            gap(Some(0), 10, 20),
            gap(Some(1), 30, 40),
            gap(Some(0), 15, 25),
            gap(Some(0), 60, 70),
        ]);
        assert_eq!(gaps.within(0, 10, None), None);
        assert_eq!(gaps.within(0, 11, None), Some((10, 11)));
        assert_eq!(gaps.within(22, 35, None), Some((22, 35)));
        assert_eq!(gaps.within(22, 35, Some(1)), Some((30, 35)));
        assert_eq!(gaps.within(0, 100, Some(0)), Some((10, 70)));
        assert_eq!(gaps.within(0, 100, Some(2)), None);
        assert_eq!(gaps.within(70, 100, None), None);
    }

    #[test]
    fn a_gap_of_nobody_knows_which_cpu_is_one_of_each() {
        let gap = |cpu, begin_ns, end_ns| Gap { cpu, begin_ns, end_ns };
        let mut gaps = Gaps::new(&[gap(None, 10, 20), gap(Some(1), 40, 50)]);
        gaps.add(gap(None, 30, 35));
        gaps.add(gap(Some(2), 60, 70));
        for cpu in [None, Some(0), Some(1), Some(2)] {
            assert_eq!(gaps.within(0, 38, cpu), Some((10, 35)), "{cpu:?}");
        }
        assert_eq!(gaps.within(38, 100, Some(0)), None);
        assert_eq!(gaps.within(38, 100, Some(1)), Some((40, 50)));
        assert_eq!(gaps.within(38, 100, Some(2)), Some((60, 70)));
    }

    #[test]
    fn gaps_that_come_later_join_those_that_are_there() {
        let gap = |begin_ns, end_ns| Gap {
            cpu: Some(0),
            begin_ns,
            end_ns,
        };
        let mut gaps = Gaps::new(&[gap(10, 20), gap(30, 40), gap(50, 60)]);
        gaps.add(gap(15, 45));
        assert_eq!(gaps.within(0, 49, Some(0)), Some((10, 45)));
        assert_eq!(gaps.within(45, 50, Some(0)), None);
        assert_eq!(gaps.within(45, 55, None), Some((50, 55)));
        let begins: Vec<i64> = gaps.all().iter().map(|gap| gap.begin_ns).collect();
        assert_eq!(begins, [10, 15, 30, 50]);
    }
}
