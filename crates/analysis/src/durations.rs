// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of time for each of many, of which the longest are shown.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::report::Value;

/// More are not shown one by one.
const NAMED_MAX: usize = 4;

/// For each, its sum in nanoseconds; `None` collects the time for which nobody knows whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Durations<T>(FxHashMap<Option<T>, i64>);

impl<T> Default for Durations<T> {
    fn default() -> Durations<T> {
        Durations(FxHashMap::default())
    }
}

impl<T: Copy + Eq + Hash + Ord> Durations<T> {
    #[inline]
    pub(crate) fn add(&mut self, who: Option<T>, ns: i64) {
        *self.0.entry(who).or_default() += ns;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The longest first.
    pub(crate) fn sorted(&self) -> Vec<(Option<T>, i64)> {
        let mut sorted: Vec<_> = self.0.iter().map(|(who, ns)| (*who, *ns)).collect();
        sorted.sort_by_key(|(who, ns)| (-ns, *who));
        sorted
    }

    /// Who has the longest, of those that are known.
    pub(crate) fn first(&self) -> Option<T> {
        self.sorted().into_iter().find_map(|(who, _)| who)
    }

    /// Those who have the longest, by name, and the others together.
    pub(crate) fn value(&self, name: impl Fn(T) -> String) -> Value {
        let all = self.sorted();
        let named = |(who, ns): &(Option<T>, i64)| (who.map_or_else(|| "unknown".to_owned(), &name), *ns);
        let (longest, others) = match all.len() {
            0..=NAMED_MAX => all.split_at(all.len()),
            _ => all.split_at(NAMED_MAX - 1),
        };
        let mut durations: Vec<_> = longest.iter().map(named).collect();
        if !others.is_empty() {
            let together = others.iter().map(|(_, ns)| ns).sum();
            durations.push((format!("{} others", others.len()), together));
        }
        Value::Durations(durations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_have_the_longest_are_named() {
        let mut behind = Durations::default();
        for (who, ns) in [
            (Some(1), 5),
            (None, 40),
            (Some(2), 20),
            (Some(3), 7),
            (Some(4), 3),
            (Some(1), 5),
        ] {
            behind.add(who, ns);
        }
        assert_eq!(behind.first(), Some(2));
        let named = |name: &str, ns| (name.to_owned(), ns);
        let value = behind.value(|who| format!("cc1 ({who})"));
        assert_eq!(
            value,
            Value::Durations(vec![
                named("unknown", 40),
                named("cc1 (2)", 20),
                named("cc1 (1)", 10),
                named("2 others", 10)
            ])
        );
        assert_eq!(value.csv(), "\"unknown 40, cc1 (2) 20, cc1 (1) 10, 2 others 10\"");
    }
}
