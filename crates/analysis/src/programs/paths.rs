// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs by call path: what each function cost itself, and what it cost with all that it called. Costs are counts or times.

use std::fmt::Write;

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

    /// What each path cost with all that begin with it; the root first.
    pub fn totals(&self) -> Vec<i64> {
        let mut totals: Vec<i64> = self.nodes.iter().map(|node| node.own.own).collect();
        for place in (1..totals.len()).rev() {
            totals[self.nodes[place].parent.0 as usize] += totals[place];
        }
        totals
    }
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
    /// The paths that cost most, no more than so many, each below the one that it begins with.
    pub fn lines(&self, is_wanted: impl Fn(i64) -> bool, limit: usize) -> Vec<Line<'_>> {
        let totals = self.totals();
        let dearest = |places: &mut Vec<usize>| {
            places.sort_by(|one, other| {
                let frames = self.nodes[*one].frame.cmp(&self.nodes[*other].frame);
                totals[*other].cmp(&totals[*one]).then(frames)
            });
        };
        let mut places: Vec<usize> = (1..self.nodes.len())
            .filter(|place| is_wanted(totals[*place]))
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

    /// Functions, the dearest first: a function that calls itself is counted once.
    pub fn functions(&self) -> Vec<Line<'_>> {
        let totals = self.totals();
        let mut functions: FxHashMap<&str, Line<'_>> = FxHashMap::default();
        for (place, node) in self.nodes.iter().enumerate() {
            let Some(frame) = &node.frame else { continue };
            let line = functions.entry(frame).or_insert(Line {
                depth: 0,
                frame,
                calls: 0,
                own: 0,
                total: 0,
            });
            line.calls += node.own.calls;
            line.own += node.own.own;
            if !self.above(node).any(|above| above == frame) {
                line.total += totals[place];
            }
        }
        let mut lines: Vec<Line<'_>> = functions.into_values().collect();
        lines.sort_by(|one, other| (other.own, one.frame).cmp(&(one.own, other.frame)));
        lines
    }

    fn above<'t>(&'t self, node: &Node<String>) -> impl Iterator<Item = &'t str> {
        let mut next = node.parent;
        std::iter::from_fn(move || {
            let node = &self.nodes[next.0 as usize];
            next = node.parent;
            node.frame.as_deref()
        })
    }

    /// Lines `outermost;...;innermost COST`, as programs that draw flames read them. Frames are separated by semicolons, which a name
    /// of a function does not have; a control character in one would end the line.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for node in self.nodes.iter().filter(|node| node.own.own > 0) {
            let mut frames: Vec<&str> = node.frame.as_deref().into_iter().chain(self.above(node)).collect();
            frames.reverse();
            let clean = |frame: &&str| frame.replace(|letter: char| letter == ';' || letter.is_control(), "_");
            let path: Vec<String> = frames.iter().map(clean).collect();
            let _ = writeln!(text, "{} {}", path.join(";"), node.own.own);
        }
        text
    }
}

#[cfg(test)]
mod tests {
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
        let all = shown(&paths.lines(|_| true, 10));
        assert_eq!(all, ["a 1 5 85", " c 1 50 50", " b 2 10 30", "  c 4 20 20", "d 1 1 1"]);
        let few = shown(&paths.lines(|total| total >= 20, 3));
        assert_eq!(few, ["a 1 5 85", " c 1 50 50", " b 2 10 30"]);
        let functions = shown(&paths.functions());
        assert_eq!(functions, ["c 5 70 70", "b 2 10 30", "a 1 5 85", "d 1 1 1"]);
        let mut folded: Vec<String> = paths.folded().lines().map(str::to_owned).collect();
        folded.sort();
        assert_eq!(folded, ["a 5", "a;b 10", "a;b;c 20", "a;c 50", "d 1"]);
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
        assert_eq!(shown(&merged.lines(|_| true, 9)), ["a 0 0 9", " b 3 9 9"]);
    }

    #[test]
    fn folded_lines_have_one_separator() {
        assert_eq!(paths(&[("a;b\nc", 1, 2)]).folded(), "a_b_c 2\n");
    }
}
