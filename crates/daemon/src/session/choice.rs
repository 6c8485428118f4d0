// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session is about in a domain: which programs, or which threads and CPUs of the kernel. A set of values for each kind of attribute;
//! recorded is what every set allows.
//!
//! A kind without a set allows everything. A set whose last value was removed allows nothing: whoever removes a process does not want to record
//! it from then on, and much less everything. Only dropping the whole choice brings back what it left out.

use std::collections::{BTreeMap, BTreeSet};

use piste_kernel::spec;
use piste_patterns::matches;
use serde::{Deserialize, Serialize};

use super::process::{Process, ProcessFacts};
use super::refusal::Refusal;
use super::rules::check_name_pattern;
use super::settings::invalid;
use crate::link::Domain;

/// Values that the sets of a session can have in a domain.
pub const VALUE_COUNT_MAX: usize = 4096;
/// Those of them that are texts: each program is compared with each of them, and they are long.
pub const TEXT_COUNT_MAX: usize = 64;
/// Bytes of the path of a control group.
const PATH_BYTES_MAX: usize = 4096;

/// Sets of values, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    sets: BTreeMap<Kind, BTreeSet<Value>>,
    follow_children: bool,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names of the words below")]
pub enum Kind {
    Process,
    ProcessGroup,
    ProcessSession,
    User,
    Group,
    Cpu,
    Executable,
    ControlGroup,
}

/// One value of a set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Of a user, a group, a CPU, ...
    Number(u32),
    /// A process: another one may get its number.
    Process(Process),
    /// A pattern or a path.
    Text(String),
}

impl Kind {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Process => "process",
            Kind::ProcessGroup => "process group",
            Kind::ProcessSession => "process session",
            Kind::User => "user",
            Kind::Group => "group",
            Kind::Cpu => "CPU",
            Kind::Executable => "executable",
            Kind::ControlGroup => "control group",
        }
    }

    /// Whether it is known of what a domain records.
    fn is_of(self, domain: Domain) -> bool {
        match self {
            Kind::Process | Kind::User | Kind::Group => true,
            Kind::ProcessGroup | Kind::ProcessSession | Kind::Cpu => domain == Domain::Kernel,
            Kind::Executable | Kind::ControlGroup => domain == Domain::User,
        }
    }
}

impl Value {
    /// Whether the two are the same for who removes one. A process is removed by its number, also when it has ended.
    fn is(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Process(one), Value::Process(other)) => one.pid == other.pid,
            _ => self == other,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => write!(out, "{number}"),
            Value::Process(process) => write!(out, "{}", process.pid),
            Value::Text(text) => write!(out, "{text}"),
        }
    }
}

impl Choice {
    /// Makes a set that allows these values, if there are any, or that allows nothing if it is there and has none.
    #[must_use]
    pub fn with(mut self, kind: Kind, values: Option<impl IntoIterator<Item = Value>>) -> Choice {
        if let Some(values) = values {
            self.sets.entry(kind).or_default().extend(values);
        }
        self
    }

    /// Also what the processes started.
    #[must_use]
    pub fn following(mut self, follow_children: bool) -> Choice {
        self.follow_children = follow_children;
        self
    }

    /// The values of a kind; `None` if it allows everything.
    pub fn values(&self, kind: Kind) -> Option<impl Iterator<Item = &Value>> {
        self.sets.get(&kind).map(|set| set.iter())
    }

    /// Whether what its processes started is among what is recorded.
    pub fn follows_children(&self) -> bool {
        self.follow_children
    }

    /// This choice with what another one has besides.
    ///
    /// # Errors
    /// A value cannot be, or they are too many.
    pub fn plus(&self, domain: Domain, more: &Choice) -> Result<Choice, Refusal> {
        more.check(domain)?;
        let mut sum = self.clone();
        for (&kind, values) in &more.sets {
            let set = sum.sets.entry(kind).or_default();
            for value in values {
                // Its number was another process's.
                set.retain(|known| !known.is(value));
                set.insert(value.clone());
            }
        }
        sum.follow_children |= more.follow_children;
        sum.check_follows()?;
        let texts = sum
            .sets
            .values()
            .flatten()
            .filter(|value| matches!(value, Value::Text(_)));
        for (setting, count, limit) in [
            ("number of values to track", sum.value_count(), VALUE_COUNT_MAX),
            ("number of patterns and paths to track", texts.count(), TEXT_COUNT_MAX),
        ] {
            if count > limit {
                return Err(invalid(setting, count, &format!("at most {limit}; use broader ones")));
            }
        }
        Ok(sum)
    }

    /// This choice without the values of another one.
    ///
    /// # Errors
    /// It does not have one of them.
    pub fn minus(&self, domain: Domain, less: &Choice) -> Result<Choice, Refusal> {
        less.check(domain)?;
        let mut rest = self.clone();
        for (kind, values) in &less.sets {
            for value in values {
                let set = rest.sets.get_mut(kind);
                let known = set
                    .as_deref()
                    .and_then(|set| set.iter().find(|known| known.is(value)).cloned());
                if let Some((set, known)) = set.zip(known) {
                    set.remove(&known);
                } else {
                    let tracked = self.sets.get(kind).into_iter().flatten();
                    return Err(Refusal::NotTracked {
                        kind: kind.name(),
                        value: value.to_string(),
                        tracked: tracked.map(Value::to_string).collect(),
                    });
                }
            }
        }
        let has_processes = rest.sets.get(&Kind::Process).is_some_and(|set| !set.is_empty());
        rest.follow_children &= has_processes && !less.follow_children;
        Ok(rest)
    }

    /// Whether a program with these facts is recorded.
    pub fn admits(&self, facts: &ProcessFacts, pid: i32) -> bool {
        self.sets.iter().all(|(kind, set)| match kind {
            Kind::Process => {
                let own = Process {
                    pid,
                    start: facts.start,
                };
                let has = |process: &Process| set.contains(&Value::Process(*process));
                has(&own) || self.follow_children && facts.ancestors.iter().any(has)
            }
            Kind::User => set.contains(&Value::Number(facts.uid)),
            Kind::Group => set.contains(&Value::Number(facts.gid)),
            Kind::Executable => texts(set).any(|pattern| is_executable(pattern, &facts.executable)),
            Kind::ControlGroup => texts(set).any(|path| {
                let mut groups = facts.control_groups.iter();
                groups.any(|group| is_in_group(group, path))
            }),
            Kind::ProcessGroup | Kind::ProcessSession | Kind::Cpu => false,
        })
    }

    /// Whether it names a process.
    pub fn names(&self, process: &Process) -> bool {
        let set = self.sets.get(&Kind::Process);
        set.is_some_and(|set| set.contains(&Value::Process(*process)))
    }

    /// Whether it leaves nothing out.
    pub fn is_everything(&self) -> bool {
        self.sets.is_empty()
    }

    /// How long it takes to find out whether a program is recorded, in comparisons of a name with a pattern.
    pub fn comparison_count(&self) -> usize {
        self.sets
            .values()
            .flatten()
            .filter(|value| matches!(value, Value::Text(_)))
            .count()
    }

    /// As the kernel consumer understands it.
    pub fn for_kernel(&self) -> spec::Tracked {
        if self.sets.values().any(BTreeSet::is_empty) {
            return spec::Tracked {
                nobody: true,
                ..spec::Tracked::default()
            };
        }
        let numbers = |kind| -> Vec<u32> {
            let number = |value: &Value| match value {
                Value::Number(number) => Some(*number),
                Value::Process(process) => Some(process.pid.cast_unsigned()),
                Value::Text(_) => None,
            };
            self.values(kind).into_iter().flatten().filter_map(number).collect()
        };
        spec::Tracked {
            pids: numbers(Kind::Process),
            follow_children: self.follow_children,
            process_groups: numbers(Kind::ProcessGroup),
            process_sessions: numbers(Kind::ProcessSession),
            uids: numbers(Kind::User),
            gids: numbers(Kind::Group),
            cpus: numbers(Kind::Cpu),
            nobody: false,
        }
    }

    fn value_count(&self) -> usize {
        self.sets.values().map(BTreeSet::len).sum()
    }

    fn check(&self, domain: Domain) -> Result<(), Refusal> {
        for (kind, set) in &self.sets {
            if !kind.is_of(domain) {
                let other = match domain {
                    Domain::User => "only for the kernel (-k)",
                    Domain::Kernel => "only for programs (-u)",
                };
                return Err(invalid("tracking by", kind.name(), other));
            }
            for text in texts(set) {
                match kind {
                    Kind::Executable => check_executable(text)?,
                    _ => check_path(text)?,
                }
            }
        }
        Ok(())
    }

    fn check_follows(&self) -> Result<(), Refusal> {
        let has_processes = self.sets.get(&Kind::Process).is_some_and(|set| !set.is_empty());
        if self.follow_children && !has_processes {
            return Err(invalid(
                "following the children of",
                "no process",
                "at least one tracked process",
            ));
        }
        Ok(())
    }
}

fn texts(set: &BTreeSet<Value>) -> impl Iterator<Item = &str> {
    set.iter().filter_map(|value| match value {
        Value::Text(text) => Some(&**text),
        Value::Number(_) | Value::Process(_) => None,
    })
}

/// A pattern with a slash means the path, one without the name of the file.
fn is_executable(pattern: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    !path.is_empty() && matches(pattern, if pattern.contains('/') { path } else { name })
}

/// Whether a control group is another one, or below it.
fn is_in_group(group: &str, above: &str) -> bool {
    let below = group.strip_prefix(above.trim_end_matches('/'));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

fn check_executable(pattern: &str) -> Result<(), Refusal> {
    check_name_pattern(pattern).map_err(|wrong| {
        let allowed = format!("a name, or a path, in which `*` matches any text; but {}", wrong.reason);
        invalid(Kind::Executable.name(), pattern, &allowed)
    })
}

fn check_path(path: &str) -> Result<(), Refusal> {
    let is_possible = path.starts_with('/') && path.len() <= PATH_BYTES_MAX && !path.contains(char::is_control);
    if is_possible {
        return Ok(());
    }
    let allowed = format!(
        "a path from the root of the control groups, as in /proc/PID/cgroup, of at most {PATH_BYTES_MAX} bytes: /system.slice/shop.service"
    );
    Err(invalid(Kind::ControlGroup.name(), path, &allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, start: u64) -> Process {
        Process { pid, start }
    }

    fn numbers(kind: Kind, numbers: &[u32]) -> Choice {
        Choice::default().with(kind, Some(numbers.iter().copied().map(Value::Number)))
    }

    fn some_texts(kind: Kind, texts: &[&str]) -> Choice {
        Choice::default().with(kind, Some(texts.iter().map(|&text| Value::Text(text.into()))))
    }

    fn processes(processes: &[Process]) -> Choice {
        Choice::default().with(Kind::Process, Some(processes.iter().copied().map(Value::Process)))
    }

    fn plus(one: &Choice, other: &Choice) -> Choice {
        one.plus(Domain::User, other).unwrap()
    }

    fn facts() -> ProcessFacts {
        ProcessFacts {
            start: 50,
            uid: 1000,
            gid: 100,
            executable: "/usr/bin/shop-server".into(),
            control_groups: vec!["/".into(), "/shop.slice/web.service".into()],
            ancestors: vec![process(6, 40), process(1, 0)],
        }
    }

    #[test]
    fn what_every_set_allows_is_recorded() {
        let admits = |choice: &Choice| choice.admits(&facts(), 7);
        let user = numbers(Kind::User, &[0, 1000]);
        assert!(admits(&Choice::default()) && admits(&user));
        assert!(!admits(&numbers(Kind::User, &[0])));
        assert!(admits(&plus(&user, &numbers(Kind::Group, &[100]))));
        assert!(!admits(&plus(&user, &numbers(Kind::Group, &[1000]))));
    }

    #[test]
    fn a_process_is_itself_and_with_children_what_it_started() {
        let admits = |choice: Choice| choice.admits(&facts(), 7);
        assert!(admits(processes(&[process(7, 50)])));
        assert!(!admits(processes(&[process(7, 49)])), "its number was another one's");
        assert!(!admits(processes(&[process(6, 40)])));
        assert!(admits(processes(&[process(6, 40)]).following(true)));
        assert!(!admits(processes(&[process(6, 39)]).following(true)));
    }

    #[test]
    fn executables_are_names_or_paths() {
        let admits = |pattern: &str| some_texts(Kind::Executable, &["nothing", pattern]).admits(&facts(), 7);
        for pattern in [
            "shop-server",
            "shop*",
            "*",
            "/usr/bin/*",
            "*/shop-server",
            "/usr/*server",
        ] {
            assert!(admits(pattern), "{pattern}");
        }
        for pattern in ["shop", "bin*", "/usr/bin", "shop-server/"] {
            assert!(!admits(pattern), "{pattern}");
        }
        let unseen = ProcessFacts {
            executable: String::new(),
            ..facts()
        };
        assert!(!some_texts(Kind::Executable, &["*"]).admits(&unseen, 7));
    }

    #[test]
    fn control_groups_have_others_below_them() {
        let admits = |path: &str| some_texts(Kind::ControlGroup, &[path]).admits(&facts(), 7);
        for path in ["/", "/shop.slice", "/shop.slice/", "/shop.slice/web.service"] {
            assert!(admits(path), "{path}");
        }
        for path in ["/shop", "/shop.slice/web", "/web.service"] {
            assert!(!admits(path), "{path}");
        }
    }

    #[test]
    fn sets_grow_and_shrink_and_an_empty_one_allows_nothing() {
        let both = plus(&numbers(Kind::User, &[1000]), &numbers(Kind::User, &[1000, 5]));
        assert_eq!(both, numbers(Kind::User, &[5, 1000]));
        let one = both.minus(Domain::User, &numbers(Kind::User, &[5])).unwrap();
        assert_eq!(one, numbers(Kind::User, &[1000]));
        let none = one.minus(Domain::User, &numbers(Kind::User, &[1000])).unwrap();
        assert!(!none.is_everything() && !none.admits(&facts(), 7));
        assert!(none.for_kernel().nobody);
        assert!(plus(&none, &numbers(Kind::User, &[1000])).admits(&facts(), 7));
    }

    #[test]
    fn what_is_not_tracked_cannot_be_removed() {
        let tracked = numbers(Kind::User, &[5, 1000]);
        assert_eq!(
            tracked.minus(Domain::User, &numbers(Kind::User, &[5, 6])),
            Err(Refusal::NotTracked {
                kind: "user",
                value: "6".into(),
                tracked: vec!["5".into(), "1000".into()],
            })
        );
        assert_eq!(
            tracked.minus(Domain::User, &processes(&[process(7, 50)])),
            Err(Refusal::NotTracked {
                kind: "process",
                value: "7".into(),
                tracked: vec![],
            })
        );
    }

    #[test]
    fn a_number_that_another_process_got_means_that_one() {
        let tracked = plus(&processes(&[process(7, 50)]), &processes(&[process(7, 60)]));
        assert_eq!(tracked, processes(&[process(7, 60)]));
        let ended = tracked.minus(Domain::User, &processes(&[process(7, 0)])).unwrap();
        assert_eq!(ended, processes(&[]));
    }

    #[test]
    fn children_are_followed_as_long_as_there_is_a_process() {
        let follow = Choice::default().following(true);
        assert!(Choice::default().plus(Domain::User, &follow).is_err());
        let one = processes(&[process(7, 50)]);
        let followed = plus(&one, &follow);
        assert!(followed.follows_children());
        assert_eq!(followed.minus(Domain::User, &follow), Ok(one.clone()));
        let none = followed.minus(Domain::User, &one).unwrap();
        assert!(!none.follows_children());
    }

    #[test]
    fn each_domain_has_kinds_of_its_own() {
        let check = |choice: &Choice| Domain::ALL.map(|domain| Choice::default().plus(domain, choice).is_ok());
        assert_eq!(check(&numbers(Kind::User, &[0])), [true, true]);
        assert_eq!(check(&numbers(Kind::Cpu, &[0])), [false, true]);
        assert_eq!(check(&some_texts(Kind::Executable, &["a*"])), [true, false]);
        assert_eq!(check(&some_texts(Kind::Executable, &[""])), [false, false]);
        assert_eq!(check(&some_texts(Kind::ControlGroup, &["a"])), [false, false]);
    }

    #[test]
    fn sets_are_bounded() {
        let many: Vec<u32> = (0..VALUE_COUNT_MAX as u32).collect();
        let many = plus(&Choice::default(), &numbers(Kind::User, &many));
        assert!(many.plus(Domain::User, &numbers(Kind::User, &[7])).is_ok());
        assert!(many.plus(Domain::User, &numbers(Kind::Group, &[7])).is_err());
        let names: Vec<String> = (0..TEXT_COUNT_MAX).map(|number| format!("a{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let many = plus(&Choice::default(), &some_texts(Kind::Executable, &names));
        assert!(
            many.plus(Domain::User, &some_texts(Kind::ControlGroup, &["/"]))
                .is_err()
        );
    }

    #[test]
    fn the_journal_keeps_every_kind_of_value() {
        let choice = plus(
            &plus(&processes(&[process(7, 50)]).following(true), &numbers(Kind::User, &[])),
            &some_texts(Kind::Executable, &["7"]),
        );
        let text = serde_json::to_string(&choice).unwrap();
        assert_eq!(serde_json::from_str::<Choice>(&text).unwrap(), choice, "{text}");
    }
}
