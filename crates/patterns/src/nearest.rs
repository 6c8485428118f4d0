// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that look most like one that does not exist.

/// At most `limit` of `known`, the most alike first; none that has little in common with `wanted`. A `*` of a pattern stands for
/// nothing here.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<String> {
    const ENOUGH: f64 = 0.5;
    let wanted = wanted.replace('*', "");
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (likeness(&wanted, name), name))
        .filter(|(score, _)| *score >= ENOUGH)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by_key(|(_, name)| *name);
    scored
        .into_iter()
        .take(limit)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// 1 for the same name, 0 for one without any common letter. A name that holds the wanted one is the more alike the less it adds.
fn likeness(wanted: &str, name: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(wanted, name);
    if wanted.len() >= 2 && name.contains(wanted) {
        return edits.max(0.5 + wanted.len() as f64 / name.len() as f64 / 2.0);
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_come_first_and_strangers_do_not_come() {
        let names = ["sched_switch", "sched_stat_wait", "sys_enter", "irq_handler_entry"];
        assert_eq!(nearest("sched_swich", names, 3)[0], "sched_switch");
        assert_eq!(nearest("*handler*", names, 3), ["irq_handler_entry"]);
        assert!(nearest("zzz", names, 3).is_empty());
        let names = ["shop:order", "kitchen:oven", "lttng_ust_libc:malloc"];
        assert_eq!(nearest("shop:ordre", names, 3), ["shop:order"]);
    }

    #[test]
    fn a_letter_wrong_or_missing_is_enough_for_short_names() {
        let names = ["web", "wet", "database", "web-2"];
        assert_eq!(nearest("wbe", names, 3)[0], "web");
        assert_eq!(nearest("we", names, 3), ["web", "wet", "web-2"]);
        assert_eq!(nearest("databsae", names, 3), ["database"]);
        assert!(nearest("kernel", names, 3).is_empty());
    }
}
