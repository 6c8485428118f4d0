// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time went by call path: of functions that say when they begin and end, and of stacks that the kernel recorded with events, once
//! for each event, and once for the time that a thread was off its CPU.
//!
//! A function's own time is the time of its thread while it is the innermost one. It ends with the thread's last event.
//!
//! Where events are missing, functions may have ended and others begun, and a thread may have had a CPU in between: what is open there is
//! forgotten and its time not counted. What a thread enters afterwards is called by nobody knows whom.

mod namer;
mod tables;

use std::collections::hash_map::Entry;
use std::fmt::Write;

use rustc_hash::FxHashMap;

use self::namer::Namer;
pub(super) use self::tables::by_function;
use self::tables::{KINDS, TREE_LIMIT, functions};
use super::code::{Place, Resolve, Stands};
use super::images::{ImageId, Images};
use super::paths::{Cost, PathId, ROOT, Tree};
use super::{Description, Event, Outcome, ProgramAnalysis};
use crate::analyses::LIMIT;
use crate::analysis::Options;
use crate::facts::{Left, ProgramFact, Switch};
use crate::names::{Name, Names};
use crate::process_gaps::{Lost, ProcessGaps};
use crate::report::counted;

pub(super) static FLAME: Description = Description {
    name: "flame",
    about: "where the time went, by call path: functions, and stacks of kernel events (--folded for flame graphs)",
    tables: &["calls", "functions", "off_cpu", "events"],
    // Which events have stacks is seen in their fields.
    needs: &[],
    begin: |options| {
        Box::new(Flame {
            options: options.clone(),
            names: Names::default(),
            seen: Seen::default(),
            functions: Tree::default(),
            function_gaps: ProcessGaps::default(),
            threads: FxHashMap::default(),
            callers: FxHashMap::default(),
            unmatched_exits: 0,
            skipped_exits: 0,
            torn_ns: 0,
            off_cpu: Tree::default(),
            switch_gaps: ProcessGaps::default(),
            left: FxHashMap::default(),
            torn_absences: 0,
            untold_absences: Cost::default(),
            events: Tree::default(),
        })
    },
};

const NEEDS: &str = "flame needs entries and exits of functions, or events with stacks, and this trace has neither; record functions of \
                     programs built with -finstrument-functions with `piste record --no-kernel --preload functions -o DIR -- CMD`, or \
                     stacks with `piste record --no-user -k sched_switch --callstack kernel,user -o DIR -- CMD`";

struct Flame {
    options: Options,
    names: Names,
    seen: Seen,
    /// In nanoseconds.
    functions: Tree<Frame>,
    function_gaps: ProcessGaps,
    threads: FxHashMap<(ImageId, Option<i64>), Thread>,
    /// The functions that calls return to, by where in a file that is.
    callers: FxHashMap<Place, Option<Place>>,
    unmatched_exits: u64,
    skipped_exits: u64,
    /// From events of threads in functions to their next ones, where events are missing in between.
    torn_ns: i64,
    /// In nanoseconds.
    off_cpu: Tree<Frame>,
    switch_gaps: ProcessGaps,
    /// Threads that are off their CPU: since when, and where they left it.
    left: FxHashMap<i32, (i64, PathId)>,
    /// How often threads were off their CPU where events are missing.
    torn_absences: u64,
    /// The same, where nothing is missing, but some kernels do not tell all turns to threads: how long at most.
    untold_absences: Cost,
    /// A count.
    events: Tree<Frame>,
}

/// What there was to go by.
#[derive(Default)]
struct Seen {
    functions: u64,
    stacks: u64,
    /// Of both, those that are asked about.
    meant: u64,
}

/// What a path consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Frame {
    Program(ImageId),
    /// A thread or an event.
    Named(Name),
    Code(Place, Stands),
    /// Functions that were entered where events are missing.
    Unknown,
}

/// A function that has begun and not ended.
struct Open {
    function: u64,
    call_site: Option<u64>,
    path: PathId,
}

/// A thread whose functions say when they begin and end.
#[derive(Default)]
struct Thread {
    /// The innermost last.
    stack: Vec<Open>,
    /// How often each is in that.
    open: FxHashMap<u64, u32>,
    /// Functions may be open around those.
    is_below_unknown: bool,
    last_ns: Option<i64>,
}

impl Thread {
    /// A function ends, the innermost one where it is not said which, and those above it, left without a word: longjmp does so. How many those
    /// are; `None` where it is not open.
    fn leave(&mut self, function: Option<u64>) -> Option<u64> {
        let function = function.or(self.stack.last().map(|open| open.function))?;
        if !self.open.contains_key(&function) {
            return None;
        }
        let place = self.stack.iter().rposition(|open| open.function == function)?;
        let ended = self.cut(place);
        Some(ended - 1)
    }

    /// Ends all functions above the first ones; how many those are.
    fn cut(&mut self, left: usize) -> u64 {
        let ended = self.stack.drain(left..);
        let count = ended.len() as u64;
        for Open { function, .. } in ended {
            if let Entry::Occupied(mut count) = self.open.entry(function) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        count
    }

    /// How many functions are still open when the one that `is_caller` recognizes calls another one: it is the innermost, but for those that
    /// the compiler has put into it, which say that they return to where it returns. Those above have been left without a word.
    fn open_around_call(&self, is_caller: impl Fn(&Open) -> bool) -> Option<usize> {
        let place = self.stack.iter().rposition(is_caller)?;
        let returns_to = self.stack[place].call_site;
        let inside = self.stack[place + 1..].iter();
        Some(place + 1 + inside.take_while(|open| open.call_site == returns_to).count())
    }
}

impl ProgramAnalysis for Flame {
    fn lose(&mut self, lost: &Lost<'_>) -> bool {
        let functions = lost.may_be(|class| class.starts_with("lttng_ust_cyg_profile"));
        let switches = lost.may_be(|class| class == "sched_switch");
        if functions {
            self.function_gaps.add(lost);
        }
        if switches {
            self.switch_gaps.add(lost);
        }
        functions || switches
    }

    fn fact(&mut self, fact: &ProgramFact<'_>, event: &Event<'_>, images: &Images, resolve: &mut dyn Resolve) {
        if !matches!(fact, ProgramFact::Entered { .. } | ProgramFact::Left { .. }) {
            return;
        }
        self.seen.functions += 1;
        self.seen.meant += u64::from(event.is_meant);
        let thread = self.threads.entry((event.image, event.tid)).or_default();
        let since_ns = thread.last_ns.replace(event.ns).unwrap_or(i64::MIN);
        let is_torn = self.function_gaps.lie_within(since_ns, event.ns, event.pid);
        if let (Some(Open { path, .. }), true) = (thread.stack.last(), event.is_meant) {
            let own_ns = (event.ns - since_ns.max(event.asked_from_ns)).max(0);
            match is_torn {
                true => self.torn_ns += own_ns,
                false => self.functions.cost(*path).own += own_ns,
            }
        }
        if is_torn {
            thread.stack.clear();
            thread.open.clear();
            thread.is_below_unknown = true;
        }
        let (function, call_site) = match *fact {
            ProgramFact::Entered { function, call_site } => (function, call_site),
            ProgramFact::Left { function } => {
                match thread.leave(function) {
                    Some(skipped) => self.skipped_exits += skipped,
                    None => self.unmatched_exits += u64::from(event.is_meant),
                }
                return;
            }
            _ => return,
        };
        let innermost = thread.stack.last();
        if let (Some(call_site), Some(innermost)) = (call_site, innermost)
            && innermost.call_site != Some(call_site)
        {
            let site = images.place(event.image, call_site.saturating_sub(1));
            let caller = self
                .callers
                .entry(site)
                .or_insert_with(|| caller(site, images, resolve));
            if let Some(caller) = *caller {
                let is_caller = |open: &Open| images.place(event.image, open.function) == caller;
                if let Some(open) = thread.open_around_call(is_caller) {
                    self.skipped_exits += thread.cut(open);
                }
            }
        }
        let parent = match thread.stack.last() {
            Some(Open { path, .. }) => *path,
            None => {
                let program = self.functions.child(ROOT, Frame::Program(event.image));
                match thread.is_below_unknown {
                    true => self.functions.child(program, Frame::Unknown),
                    false => program,
                }
            }
        };
        let code = Frame::Code(images.place(event.image, function), Stands::ForItself);
        let path = self.functions.child(parent, code);
        self.functions.cost(path).calls += u64::from(event.is_meant);
        thread.stack.push(Open {
            function,
            call_site,
            path,
        });
        *thread.open.entry(function).or_default() += 1;
    }

    fn switch(&mut self, switch: &Switch<'_>, event: &Event<'_>, images: &Images) {
        self.see(event);
        self.end_absence(switch.next_tid, true, event);
        self.end_absence(switch.previous_tid, false, event);
        let has_ended = matches!(switch.previous, Left::Dead | Left::DeadOrParked);
        // The idle task has nothing to wait for.
        if switch.previous_tid != 0 && !has_ended && event.is_meant {
            let root = self.thread(event);
            if let Some(path) = add(&mut self.off_cpu, root, event, images) {
                self.left.insert(switch.previous_tid, (event.ns, path));
            }
        }
    }

    fn called(&mut self, event: &Event<'_>, images: &Images) {
        self.see(event);
        if !event.is_meant {
            return;
        }
        let root = self.thread(event);
        let name = self.named(event.name.as_bytes());
        if let Some(path) = add(&mut self.events, root, event, images) {
            // What happened is what the innermost function did.
            let path = self.events.child(path, name);
            let cost = self.events.cost(path);
            cost.calls += 1;
            cost.own += 1;
        }
    }

    fn report(&mut self, images: &Images, resolve: &mut dyn Resolve) -> Result<Outcome, String> {
        let mut lines = FxHashMap::default();
        let mut outcome = Outcome::default();
        let trees = [
            ("calls", &self.functions),
            ("off_cpu", &self.off_cpu),
            ("events", &self.events),
        ];
        let mut namer = Namer {
            names: &self.names,
            images,
            resolve,
            known: FxHashMap::default(),
        };
        for (name, tree) in trees.into_iter().filter(|(_, tree)| !tree.is_empty()) {
            let paths = tree.map(|frame| {
                let code = namer.code(*frame);
                if matches!(frame, Frame::Code(Place::Kernel { .. }, _)) && is_tracers(&code.function) {
                    return None;
                }
                if !code.line.is_empty() {
                    lines.insert(code.function.clone(), code.line);
                }
                Some(code.function)
            });
            outcome.paths.push((name, paths));
        }
        let unlisted_programs = namer.unlisted_programs();
        if outcome.paths.is_empty() {
            return Err(self.why_nothing());
        }
        for (name, paths) in &outcome.paths {
            let kind = KINDS.iter().find(|kind| kind.name == *name).expect("all are there");
            let limit = self.options.limit;
            outcome
                .report
                .tables
                .push(kind.tree(paths, self.options.min_ns, limit.unwrap_or(TREE_LIMIT)));
            if *name == "calls" {
                outcome
                    .report
                    .tables
                    .push(functions(paths, &lines, limit.unwrap_or(LIMIT)));
            }
        }
        outcome.report.notes = self.notes(unlisted_programs);
        Ok(outcome)
    }
}

impl Flame {
    fn see(&mut self, event: &Event<'_>) {
        let has_stack = event
            .caller
            .is_some_and(|caller| !caller.user.is_empty() || !caller.kernel.is_empty());
        self.seen.stacks += u64::from(has_stack);
        self.seen.meant += u64::from(has_stack && event.is_meant);
    }

    /// A thread that was off its CPU, if any, has one: from now on, or since nobody knows when.
    fn end_absence(&mut self, tid: i32, is_now: bool, event: &Event<'_>) {
        let Some((since_ns, path)) = self.left.remove(&tid) else {
            return;
        };
        if self.switch_gaps.lie_within(since_ns, event.ns, None) {
            self.torn_absences += 1;
            return;
        }
        let cost = match is_now {
            true => self.off_cpu.cost(path),
            false => &mut self.untold_absences,
        };
        cost.calls += 1;
        cost.own += event.ns - since_ns.max(event.asked_from_ns);
    }

    fn named(&mut self, name: &[u8]) -> Frame {
        Frame::Named(self.names.keep(name))
    }

    /// A thread by its name; by its process where that is not known.
    fn thread(&mut self, event: &Event<'_>) -> Frame {
        match event.comm {
            b"" => Frame::Program(event.image),
            comm => self.named(comm),
        }
    }

    /// Of paths that all cost nothing.
    fn why_nothing(&self) -> String {
        let Seen {
            functions,
            stacks,
            meant,
        } = self.seen;
        if functions + stacks == 0 {
            return NEEDS.to_owned();
        }
        if meant == 0 {
            return format!(
                "none of the {functions} entries and exits of functions and {stacks} events with stacks in this trace is selected"
            );
        }
        let mut sentence = "no durations are known".to_owned();
        let counts = [
            counted(
                self.left.len() as u64,
                "thread left its CPU and did not return within the trace",
                "threads left their CPUs and did not return within the trace",
            ),
            counted(
                self.torn_absences,
                "off-CPU period contains a place where events are missing (see `piste stats`)",
                "off-CPU periods contain a place where events are missing (see `piste stats`)",
            ),
            counted(
                self.untold_absences.calls,
                "off-CPU period has no known end",
                "off-CPU periods have no known end",
            ),
            counted(
                self.unmatched_exits,
                "exit of a function has no known entry",
                "exits of functions have no known entry",
            ),
        ];
        for what in counts.into_iter().flatten() {
            let _ = write!(sentence, "; {what}");
        }
        sentence
    }

    fn notes(&self, unlisted_programs: usize) -> Vec<String> {
        let seconds = |ns: i64| ns as f64 / 1e9;
        let torn = format!(
            "{:.9} s of function time are not counted, and the calls in that time are unknown, because events are missing (see `piste stats`)",
            seconds(self.torn_ns)
        );
        let Cost { calls, own } = self.untold_absences;
        let at_most = format!("{:.9} s at most", seconds(own));
        let notes = [
            counted(
                unlisted_programs as u64,
                "program has functions without names, because the trace does not show what is loaded where; `piste record --preload dl -- CMD` \
                 records it",
                "programs have functions without names, because the trace does not show what is loaded where; `piste record --preload dl -- CMD` \
                 records it",
            ),
            (self.torn_ns > 0).then_some(torn),
            counted(
                calls,
                &format!("off-CPU period is not counted, {at_most}: its end is unknown"),
                &format!("off-CPU periods are not counted, {at_most}: their ends are unknown"),
            ),
            counted(
                self.torn_absences,
                "off-CPU period is not counted: events are missing in between (see `piste stats`)",
                "off-CPU periods are not counted: events are missing in between (see `piste stats`)",
            ),
            counted(
                self.unmatched_exits,
                "exit of a function has no known entry",
                "exits of functions have no known entry",
            ),
            counted(
                self.skipped_exits,
                "function without an exit is assumed to end with its caller, or before the caller's next call",
                "functions without an exit are assumed to end with their caller, or before the caller's next call",
            ),
        ];
        notes.into_iter().flatten().collect()
    }
}

/// Where the function begins that a place is in; `None` where that is not known.
fn caller(site: Place, images: &Images, resolve: &mut dyn Resolve) -> Option<Place> {
    let Place::InFile { file, offset } = site else {
        return None;
    };
    let offset = resolve.function_at(images.file(file), offset)?;
    Some(Place::InFile { file, offset })
}

/// The path of an event's stack below a root; `None` when it has none.
fn add(tree: &mut Tree<Frame>, root: Frame, event: &Event<'_>, images: &Images) -> Option<PathId> {
    let caller = event.caller?;
    let user = caller
        .user
        .iter()
        .rev()
        .map(|address| images.place(event.image, *address));
    let kernel = caller
        .kernel
        .iter()
        .rev()
        .map(|address| Place::Kernel { address: *address });
    let mut frames = user.chain(kernel).filter(is_code).peekable();
    frames.peek()?;
    let path = tree.child(ROOT, root);
    Some(frames.fold(path, |path, place| {
        tree.child(path, Frame::Code(place, Stands::ForTheCall))
    }))
}

/// Tracers mark the end of a stack, and where the kernel's begins, with addresses where no code is.
fn is_code(place: &Place) -> bool {
    let (Place::Unknown { address, .. } | Place::Kernel { address }) = place else {
        return true;
    };
    *address != 0 && *address < u64::MAX - 4096
}

/// Functions of the kernel that record the event, and so are innermost in every stack.
fn is_tracers(function: &str) -> bool {
    ["__traceiter_", "trace_event_raw_event_"]
        .iter()
        .any(|begin| function.starts_with(begin))
}

#[cfg(test)]
#[path = "../../../tests/unit/programs/flame/tests.rs"]
mod tests;
