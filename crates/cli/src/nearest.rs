// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that look most like one that does not exist.

/// At most `limit` of `candidates`, the most alike first; none that has little in common with `wanted`. The `*` of a
/// pattern stand for nothing here.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    const ENOUGH: f64 = 0.4;
    let wanted = wanted.replace('*', "");
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (likeness(&wanted, candidate), candidate))
        .filter(|(score, _)| *score >= ENOUGH)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by_key(|(_, candidate)| *candidate);
    scored.into_iter().take(limit).map(|(_, candidate)| candidate).collect()
}

fn likeness(wanted: &str, candidate: &str) -> f64 {
    if wanted.len() >= 3 && candidate.contains(wanted) {
        return 1.0;
    }
    strsim::normalized_damerau_levenshtein(wanted, candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_come_first_and_strangers_do_not_come() {
        let names = ["shop:order", "shop:refund", "lttng_ust_libc:malloc", "kitchen:oven"];
        assert_eq!(nearest("shop:ordre", names, 3), ["shop:order", "shop:refund"]);
        assert_eq!(nearest("*malloc*", names, 3), ["lttng_ust_libc:malloc"]);
        assert!(nearest("zzz", names, 3).is_empty());
    }
}
