// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has begun and not ended, by the track on which it nests.

use std::collections::vec_deque::Drain;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What is open on the tracks of some kind, the innermost last.
#[derive(Debug)]
pub struct Stacks<T, V> {
    nests: HashMap<T, Nest<V>>,
}

/// What is open on a track.
#[derive(Debug)]
struct Nest<V> {
    open: VecDeque<Open<V>>,
    /// How many have a name. An end that has no begin is known by it, without a search through all that is open.
    counts: HashMap<String, usize>,
}

/// What has begun and not ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Open<V> {
    /// What it is called.
    pub name: String,
    /// What was said of it when it began.
    pub value: V,
}

impl<T, V> Default for Stacks<T, V> {
    fn default() -> Stacks<T, V> {
        Stacks { nests: HashMap::new() }
    }
}

impl<V> Default for Nest<V> {
    fn default() -> Nest<V> {
        Nest {
            open: VecDeque::new(),
            counts: HashMap::new(),
        }
    }
}

impl<V> Nest<V> {
    /// Those from a place on, which are open no more.
    fn end(&mut self, from: usize) -> Drain<'_, Open<V>> {
        for open in self.open.range(from..) {
            *self.counts.get_mut(&open.name).expect("it was counted") -= 1;
        }
        self.open.drain(from..)
    }
}

impl<T: Hash + Eq, V> Stacks<T, V> {
    /// It begins, within what is open there.
    pub fn begin(&mut self, track: T, name: &str, value: V) {
        let nest = self.nests.entry(track).or_default();
        match nest.counts.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = nest.counts.insert(name.to_owned(), 1),
        }
        let name = name.to_owned();
        nest.open.push_back(Open { name, value });
    }

    /// What ends when the last of that name does: itself, and behind it those within it whose ends are missing too. Nothing when there is none.
    pub fn end(&mut self, track: T, name: &str) -> Drain<'_, Open<V>> {
        let nest = self.nests.entry(track).or_default();
        let is_open = nest.counts.get(name).is_some_and(|count| *count > 0);
        // The search goes over what ends, and no further.
        let last = is_open.then(|| nest.open.iter().rposition(|open| open.name == name));
        nest.end(last.flatten().unwrap_or(nest.open.len()))
    }

    /// Forgets the outermost on a track.
    pub fn give_up(&mut self, track: &T) -> Option<Open<V>> {
        let nest = self.nests.get_mut(track)?;
        let first = nest.open.pop_front()?;
        *nest.counts.get_mut(&first.name).expect("it was counted") -= 1;
        Some(first)
    }

    /// All that is open on a track; nothing is any more.
    pub fn end_all(&mut self, track: T) -> Drain<'_, Open<V>> {
        let nest = self.nests.entry(track).or_default();
        nest.counts.clear();
        nest.open.drain(..)
    }

    /// How deep the next one on a track is.
    pub fn depth(&self, track: &T) -> usize {
        self.nests.get(track).map_or(0, |nest| nest.open.len())
    }

    /// Tracks with what is open on them.
    pub fn tracks(&self) -> impl Iterator<Item = (&T, &VecDeque<Open<V>>)> {
        self.nests.iter().map(|(track, nest)| (track, &nest.open))
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn the_end_of_something_ends_what_is_within() {
        let mut stacks = Stacks::default();
        for name in ["a", "b", "c"] {
            stacks.begin(1, name, ());
        }
        assert_eq!(stacks.end(1, "d").len(), 0);
        assert_eq!(stacks.end(2, "a").len(), 0);
        let ended: Vec<String> = stacks.end(1, "b").map(|open| open.name).collect();
        assert_eq!(ended, ["b", "c"]);
        assert_eq!(stacks.end(1, "c").len(), 0);
        assert_eq!(stacks.end_all(1).len(), 1);
    }

    #[test]
    fn ends_are_matched_however_much_is_open() {
        // Looking through all that is open for each end would take minutes.
        let mut stacks = Stacks::default();
        for _ in 0..100_000 {
            stacks.begin(1, "a", ());
        }
        for _ in 0..100_000 {
            assert_eq!(stacks.end(1, "b").len(), 0);
        }
        for _ in 0..100_000 {
            assert_eq!(stacks.end(1, "a").len(), 1);
        }
        for _ in 0..100_000 {
            stacks.begin(1, "a", ());
            stacks.begin(1, "b", ());
        }
        for _ in 0..100_000 {
            assert_eq!(stacks.end(1, "a").len(), 2);
        }
    }

    #[test]
    fn what_ends_is_what_a_search_from_the_innermost_finds() {
        let mut random = Rng::with_seed(1);
        let mut stacks = Stacks::default();
        let mut model: Vec<(u64, u64)> = Vec::new();
        for number in 0..20_000 {
            let name = random.u64(..5);
            match random.u64(..20) {
                0..11 => {
                    stacks.begin(1, &name.to_string(), number);
                    model.push((name, number));
                }
                11 => {
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    let given_up = stacks
                        .give_up(&1)
                        .map(|open| (open.name.parse().expect("a number"), open.value));
                    assert_eq!(given_up, first);
                }
                12 if random.u64(..20) == 0 => {
                    assert_eq!(stacks.end_all(1).count(), model.len());
                    model.clear();
                }
                _ => {
                    let from = model.iter().rposition(|(open, _)| *open == name).unwrap_or(model.len());
                    let ended: Vec<u64> = stacks.end(1, &name.to_string()).map(|open| open.value).collect();
                    assert_eq!(ended, model.drain(from..).map(|(_, number)| number).collect::<Vec<_>>());
                }
            }
            assert_eq!(stacks.depth(&1), model.len());
        }
    }
}
