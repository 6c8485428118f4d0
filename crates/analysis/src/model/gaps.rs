// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a trace is blind: parts of time in which events of a CPU are missing. What a thread did there is unknown.

use std::collections::BTreeMap;

/// A part of time in which events of a CPU are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU; absent when nobody knows it, and every one is meant.
    pub cpu: Option<u32>,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here.
    pub end_ns: i64,
}

/// All of them. Those of one CPU are apart from each other and in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    all: Vec<Gap>,
    of_any: Vec<(i64, i64)>,
    by_cpu: BTreeMap<u32, Vec<(i64, i64)>>,
}

impl Gaps {
    /// Of a trace.
    pub fn new(gaps: &[Gap]) -> Gaps {
        let of = |is_meant: &dyn Fn(&Gap) -> bool| {
            let mut parts: Vec<(i64, i64)> = gaps
                .iter()
                .filter(|gap| is_meant(gap))
                .map(|gap| (gap.begin_ns, gap.end_ns.max(gap.begin_ns)))
                .collect();
            parts.sort_unstable();
            let mut apart: Vec<(i64, i64)> = Vec::new();
            for (begin, end) in parts {
                match apart.last_mut() {
                    Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                    _ => apart.push((begin, end)),
                }
            }
            apart
        };
        let cpus = gaps.iter().filter_map(|gap| gap.cpu);
        let by_cpu = cpus
            .map(|cpu| (cpu, of(&|gap| gap.cpu.is_none_or(|of_gap| of_gap == cpu))))
            .collect();
        let mut all = gaps.to_vec();
        all.sort_unstable_by_key(|gap| (gap.begin_ns, gap.cpu));
        Gaps {
            all,
            of_any: of(&|_| true),
            by_cpu,
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
            Some(cpu) => self.by_cpu.get(&cpu).map_or(&[], Vec::as_slice),
            None => &self.of_any,
        };
        let first = gaps.partition_point(|(_, end)| *end <= begin_ns);
        let last = gaps.partition_point(|(begin, _)| *begin < end_ns);
        let inside = gaps.get(first..last)?;
        let (first, last) = (inside.first()?, inside.last()?);
        Some((first.0.max(begin_ns), last.1.min(end_ns)))
    }

    /// All of them, in the order of their begins.
    pub fn all(&self) -> &[Gap] {
        &self.all
    }
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
}
