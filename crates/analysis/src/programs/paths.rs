// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs by call path: what each function cost itself, and what it cost with all that it called. Costs are counts or times.

use rustc_hash::FxHashMap;

/// A call path: the root, or a function called on another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(u32);

/// The path that all others begin with; it has no frame.
pub const ROOT: PathId = PathId(0);

/// Call paths of frames of a kind, with what they cost.
#[derive(Debug)]
pub struct Tree<F> {
    nodes: Vec<Node<F>>,
    children: FxHashMap<(PathId, F), PathId>,
}

#[derive(Debug)]
struct Node<F> {
    /// `None` of the root.
    frame: Option<F>,
    parent: PathId,
    own: Cost,
}

/// What a path cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How often it was taken.
    pub calls: u64,
    /// By itself.
    pub own: i64,
}

/// So many frames a folded path has at most.
pub const FOLDED_DEPTH: usize = 1000;

/// Call paths of functions by name.
pub type Paths = Tree<String>;

impl<F> Default for Tree<F> {
    fn default() -> Tree<F> {
        Tree {
            nodes: vec![Node {
                frame: None,
                parent: ROOT,
                own: Cost::default(),
            }],
            children: FxHashMap::default(),
        }
    }
}

impl<F: Clone + Eq + std::hash::Hash> Tree<F> {
    /// The path that goes on with a frame.
    pub fn child(&mut self, parent: PathId, frame: F) -> PathId {
        let next = PathId(self.nodes.len() as u32);
        let child = *self.children.entry((parent, frame.clone())).or_insert(next);
        if child == next {
            self.nodes.push(Node {
                frame: Some(frame),
                parent,
                own: Cost::default(),
            });
        }
        child
    }

    /// What a path cost, to add to it.
    pub fn cost(&mut self, path: PathId) -> &mut Cost {
        &mut self.nodes[path.0 as usize].own
    }

    /// Nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| node.own == Cost::default())
    }

    /// The same paths with other frames, or without some; those that become the same are one.
    pub fn map<G: Clone + Eq + std::hash::Hash>(&self, mut other: impl FnMut(&F) -> Option<G>) -> Tree<G> {
        let mut tree = Tree::default();
        let mut renamed = vec![ROOT];
        for node in &self.nodes {
            let Some(frame) = &node.frame else { continue };
            // A parent comes before its children.
            let parent = renamed[node.parent.0 as usize];
            let path = other(frame).map_or(parent, |frame| tree.child(parent, frame));
            renamed.push(path);
            let cost = tree.cost(path);
            cost.calls += node.own.calls;
            cost.own += node.own.own;
        }
        tree
    }

    /// Goes down to each path but the root, then to those that go on from it, and up again.
    fn walk(&self) -> impl Iterator<Item = Step> {
        // Of what goes on from each path, the oldest that was not gone down to, and of each of those the next one. The root is none.
        let mut left: Vec<usize> = vec![0; self.nodes.len()];
        let mut next = left.clone();
        for (place, node) in self.nodes.iter().enumerate().skip(1).rev() {
            next[place] = std::mem::replace(&mut left[node.parent.0 as usize], place);
        }
        let mut place = 0;
        std::iter::from_fn(move || {
            let here = place;
            let below = left[here];
            if below != 0 {
                left[here] = next[below];
                place = below;
                return Some(Step::Down(below));
            }
            place = self.nodes[here].parent.0 as usize;
            (here != 0).then_some(Step::Up(here))
        })
    }

    /// What each path cost with all that begin with it; the root first.
    pub fn totals(&self) -> Vec<i64> {
        let mut totals: Vec<i64> = self.nodes.iter().map(|node| node.own.own).collect();
        for place in (1..totals.len()).rev() {
            totals[self.nodes[place].parent.0 as usize] += totals[place];
        }
        totals
    }
}

/// A step of a walk through all paths, to one of them.
#[derive(Clone, Copy)]
enum Step {
    Down(usize),
    Up(usize),
}

/// A line of a tree.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Line<'t> {
    pub depth: usize,
    pub frame: &'t str,
    pub calls: u64,
    pub own: i64,
    pub total: i64,
}

impl Paths {
    /// The paths that cost most, no more than so many, each below the one that it begins with: those that cost at least so much, or all that
    /// something was counted of, which a clock may have found to take no time.
    pub fn lines(&self, least: Option<i64>, limit: usize) -> Vec<Line<'_>> {
        let (totals, counted) = (self.totals(), self.counted());
        let dearest = |places: &mut Vec<usize>| {
            places.sort_by(|one, other| {
                let frames = self.nodes[*one].frame.cmp(&self.nodes[*other].frame);
                totals[*other].cmp(&totals[*one]).then(frames)
            });
        };
        let mut places: Vec<usize> = (1..self.nodes.len())
            .filter(|place| least.map_or(counted[*place], |least| totals[*place] >= least))
            .collect();
        // A path costs what those that begin with it cost, or more, and is older: the sort is stable.
        places.sort_by_key(|place| std::cmp::Reverse(totals[*place]));
        places.truncate(limit);
        let mut below: FxHashMap<PathId, Vec<usize>> = FxHashMap::default();
        for place in places {
            below.entry(self.nodes[place].parent).or_default().push(place);
        }
        below.values_mut().for_each(dearest);
        let mut lines = Vec::new();
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut descend = |open: &mut Vec<(usize, usize)>, path: PathId, depth: usize| {
            let places = below.remove(&path).unwrap_or_default();
            open.extend(places.into_iter().rev().map(|place| (place, depth)));
        };
        descend(&mut open, ROOT, 0);
        while let Some((place, depth)) = open.pop() {
            let node = &self.nodes[place];
            lines.push(Line {
                depth,
                frame: node.frame.as_deref().unwrap_or_default(),
                calls: node.own.calls,
                own: node.own.own,
                total: totals[place],
            });
            descend(&mut open, PathId(place as u32), depth + 1);
        }
        lines
    }

    /// Of which paths something was counted, in them or in those that begin with them.
    fn counted(&self) -> Vec<bool> {
        let mut counted: Vec<bool> = self.nodes.iter().map(|node| node.own != Cost::default()).collect();
        // A parent comes before its children.
        for place in (1..self.nodes.len()).rev() {
            if counted[place] {
                counted[self.nodes[place].parent.0 as usize] = true;
            }
        }
        counted
    }

    /// Functions, the dearest first: a function that calls itself is counted once.
    pub fn functions(&self) -> Vec<Line<'_>> {
        let totals = self.totals();
        // Each with how often it is on the path to where the walk is.
        let mut functions: FxHashMap<&str, (Line<'_>, usize)> = FxHashMap::default();
        for step in self.walk() {
            let (Step::Down(place) | Step::Up(place)) = step;
            let node = &self.nodes[place];
            let frame = node.frame.as_deref().unwrap_or_default();
            let (line, open) = functions.entry(frame).or_insert((
                Line {
                    depth: 0,
                    frame,
                    calls: 0,
                    own: 0,
                    total: 0,
                },
                0,
            ));
            if let Step::Up(_) = step {
                *open -= 1;
                continue;
            }
            line.calls += node.own.calls;
            line.own += node.own.own;
            line.total += if *open == 0 { totals[place] } else { 0 };
            *open += 1;
        }
        let mut lines: Vec<Line<'_>> = functions.into_values().map(|(line, _)| line).collect();
        lines.sort_by(|one, other| (other.own, one.frame).cmp(&(one.own, other.frame)));
        lines
    }

    /// Tells of paths as programs that draw flames read them, `outermost;...;innermost`, and what each cost. Frames are separated by
    /// semicolons, which a name of a function does not have; a control character in one would end the line. What is deeper than
    /// [`FOLDED_DEPTH`] is counted where its path is that deep, as all paths together would be as long as the square of the depth; returns how
    /// many those were.
    ///
    /// # Errors
    /// Those of `tell`.
    pub fn folded<E>(&self, mut tell: impl FnMut(&str, i64) -> Result<(), E>) -> Result<u64, E> {
        let mut own: Vec<i64> = self.nodes.iter().map(|node| node.own.own).collect();
        let mut depths = vec![0; self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate().skip(1) {
            depths[place] = depths[node.parent.0 as usize] + 1;
        }
        let mut cut = 0;
        for (place, node) in self.nodes.iter().enumerate().rev() {
            if depths[place] > FOLDED_DEPTH && own[place] > 0 {
                own[node.parent.0 as usize] += std::mem::take(&mut own[place]);
                cut += u64::from(node.own.own > 0);
            }
        }
        let mut path = String::new();
        // Of each frame on the path, where it begins.
        let mut begins = Vec::new();
        for step in self.walk() {
            match step {
                Step::Down(place) if depths[place] <= FOLDED_DEPTH => {
                    begins.push(path.len());
                    let separator = if depths[place] > 1 { ";" } else { "" };
                    let frame = self.nodes[place].frame.as_deref().unwrap_or_default();
                    path.push_str(separator);
                    path.push_str(&frame.replace(|letter: char| letter == ';' || letter.is_control(), "_"));
                    if own[place] > 0 {
                        tell(&path, own[place])?;
                    }
                }
                Step::Up(place) if depths[place] <= FOLDED_DEPTH => path.truncate(begins.pop().unwrap_or_default()),
                _ => {}
            }
        }
        Ok(cut)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn paths(lines: &[(&str, u64, i64)]) -> Paths {
        let mut paths = Paths::default();
        for (path, calls, own) in lines {
            let path = path
                .split(' ')
                .fold(ROOT, |path, frame| paths.child(path, frame.to_owned()));
            let cost = paths.cost(path);
            cost.calls += calls;
            cost.own += own;
        }
        paths
    }

    fn folded(paths: &Paths) -> (String, u64) {
        let mut text = String::new();
        let cut = paths.folded(|path, own| writeln!(text, "{path} {own}"));
        (text, cut.expect("memory"))
    }

    fn shown(lines: &[Line<'_>]) -> Vec<String> {
        let line = |line: &Line<'_>| {
            let indent = " ".repeat(line.depth);
            format!("{indent}{} {} {} {}", line.frame, line.calls, line.own, line.total)
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn a_path_costs_what_all_that_begin_with_it_cost() {
        let paths = paths(&[
            ("a", 1, 5),
            ("a b", 2, 10),
            ("a c", 1, 50),
            ("a b c", 4, 20),
            ("d", 1, 1),
        ]);
        let all = shown(&paths.lines(None, 10));
        assert_eq!(all, ["a 1 5 85", " c 1 50 50", " b 2 10 30", "  c 4 20 20", "d 1 1 1"]);
        let few = shown(&paths.lines(Some(20), 3));
        assert_eq!(few, ["a 1 5 85", " c 1 50 50", " b 2 10 30"]);
        let functions = shown(&paths.functions());
        assert_eq!(functions, ["c 5 70 70", "b 2 10 30", "a 1 5 85", "d 1 1 1"]);
        let (text, _) = folded(&paths);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["a 5", "a;b 10", "a;b;c 20", "a;c 50", "d 1"]);
    }

    #[test]
    fn what_calls_itself_is_counted_once() {
        let paths = paths(&[("a b a", 1, 7), ("a", 1, 1)]);
        assert_eq!(shown(&paths.functions()), ["a 2 8 8", "b 0 0 7"]);
    }

    #[test]
    fn paths_that_become_the_same_are_one() {
        let paths = paths(&[("a1 b1", 1, 2), ("a1 b2", 1, 3), ("a2 b1 x", 1, 4)]);
        let merged = paths.map(|frame| (frame != "x").then(|| frame[..1].to_owned()));
        assert_eq!(shown(&merged.lines(None, 9)), ["a 0 0 9", " b 3 9 9"]);
    }

    #[test]
    fn folded_lines_have_one_separator() {
        assert_eq!(folded(&paths(&[("a;b\nc", 1, 2)])), ("a_b_c 2\n".to_owned(), 0));
    }

    #[test]
    fn folded_paths_end_where_they_are_too_deep() {
        let mut paths = Paths::default();
        let mut path = ROOT;
        for depth in 1..=FOLDED_DEPTH as i64 + 2 {
            path = paths.child(path, format!("{depth}"));
            paths.cost(path).own = depth;
        }
        let (text, cut) = folded(&paths);
        assert_eq!(cut, 2);
        let last: Vec<&str> = text.lines().skip(FOLDED_DEPTH - 2).collect();
        assert!(last[0].ends_with(";998;999 999"), "{}", last[0]);
        assert!(last[1].ends_with(";998;999;1000 3003"), "{}", last[1]);
        assert_eq!(last.len(), 2);
    }

    #[test]
    fn paths_as_deep_as_there_are_functions_take_no_longer_than_they_are_many() {
        let mut paths = Paths::default();
        let path = (0..100_000).fold(ROOT, |path, depth| paths.child(path, format!("{}", depth % 99_999)));
        paths.cost(path).own = 1;
        let functions = paths.functions();
        assert_eq!(functions.len(), 99_999);
        assert!(functions.iter().all(|function| function.total == 1));
    }
}
