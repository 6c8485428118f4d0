// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of CPUs as the kernel and people write them: `0-3,8`.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs of a list, in ascending order, each once; empty for an empty list.
///
/// # Errors
/// What is wrong with the list, as the end of a sentence.
///
/// ```
/// assert_eq!(piste_latency::cpus::parse("8,0-2,1"), Ok(vec![0, 1, 2, 8]));
/// ```
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| -> Result<u32, String> {
            let number = text.trim().parse().ok();
            number
                .filter(|cpu| (*cpu as usize) < CpuSet::MAX_CPU)
                .ok_or_else(|| format!("{part:?} is not a CPU or a range of CPUs; write for example 0-3,8"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("the range {part} ends before it begins"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The list of some CPUs, in ascending order, as the kernel writes it.
///
/// ```
/// assert_eq!(piste_latency::cpus::list(&[0, 1, 2, 8]), "0-2,8");
/// ```
pub fn list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let text = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// `CPU 3` or `CPUs 0-2,8`.
pub fn named(cpus: &[u32]) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        _ => format!("CPUs {}", list(cpus)),
    }
}

/// The CPUs that this thread may use.
///
/// # Errors
/// What the system says.
pub fn allowed() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .map(|cpu| cpu as u32)
        .collect())
}

/// Lets this thread, and those that it starts, run on some CPUs only.
pub(crate) fn pin(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, cpus) in [
            ("", vec![]),
            ("\n", vec![]),
            ("3", vec![3]),
            ("0-2\n", vec![0, 1, 2]),
            ("0-1,4,6-7", vec![0, 1, 4, 6, 7]),
        ] {
            assert_eq!(parse(text), Ok(cpus.clone()), "{text}");
            assert_eq!(list(&cpus), text.trim());
        }
        for text in ["a", "1-", "-1", "3-1", "0,,1", "99999"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!((named(&[3]), named(&[3, 4])), ("CPU 3".into(), "CPUs 3-4".into()));
    }
}
