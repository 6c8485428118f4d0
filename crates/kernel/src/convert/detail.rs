// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is recorded of an event: all of it, or what the channel's rules chose.

use crate::pattern;
use crate::spec::{EventSource, Rule, Stack};

/// What is recorded of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Detail {
    /// Names of fields in the trace; absent: all.
    fields: Option<Vec<String>>,
    /// Who called.
    pub(super) stack: Option<Stack>,
}

/// An event by the names that rules call it by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Tracepoint {
        system: &'a str,
        name: &'a str,
        trace_name: &'a str,
    },
    Syscall {
        name: &'a str,
        program_name: &'a str,
    },
    /// The event of the rule with this index.
    Probe {
        rule: usize,
    },
}

impl Detail {
    /// What `rules` want of an event. Of several rules that mean it, each gets what it wants; rules that are disabled have a say when no
    /// other one has, for what was recorded before. `None` when no rule means the event.
    pub(super) fn of(rules: &[Rule], subject: Subject) -> Option<Detail> {
        let meant = rules
            .iter()
            .enumerate()
            .filter(|(index, rule)| subject.is_meant(*index, rule));
        let (enabled, disabled): (Vec<_>, Vec<_>) = meant.map(|(_, rule)| rule).partition(|rule| rule.enabled);
        let rules = if enabled.is_empty() { disabled } else { enabled };
        let chosen = rules.iter().flat_map(|rule| &rule.fields).cloned().collect();
        let takes_all = rules.iter().any(|rule| rule.fields.is_empty());
        let stacks = rules.iter().filter_map(|rule| rule.stack.as_ref());
        (!rules.is_empty()).then(|| Detail {
            fields: (!takes_all).then_some(chosen),
            stack: stacks.cloned().reduce(joined),
        })
    }

    /// Whether `rules` ask for the exits of a system call.
    pub(super) fn has_exits(rules: &[Rule], call: Subject) -> bool {
        let mut meant = rules
            .iter()
            .enumerate()
            .filter(|(index, rule)| call.is_meant(*index, rule));
        meant.any(|(_, rule)| matches!(rule.source, EventSource::Syscall { part, .. } if part.has_exit()))
    }

    /// Whether the field with this name in the trace is recorded.
    pub(super) fn has(&self, field: &str) -> bool {
        let chosen = self.fields.as_ref();
        chosen.is_none_or(|fields| fields.iter().any(|name| name == field))
    }

    /// Whether the event is recorded as it is, neither less nor more.
    pub(super) fn is_plain(&self) -> bool {
        self.fields.is_none() && self.stack.is_none()
    }
}

impl Subject<'_> {
    pub(super) fn is_meant(self, index: usize, rule: &Rule) -> bool {
        let is_excluded = |meant: &dyn Fn(&str) -> bool| rule.excluded.iter().any(|pattern| meant(pattern));
        match (self, &rule.source) {
            (
                Subject::Tracepoint {
                    system,
                    name,
                    trace_name,
                },
                EventSource::Tracepoint { pattern },
            ) => {
                let meant = |pattern: &str| pattern::matches_event(pattern, system, name, trace_name);
                meant(pattern) && !is_excluded(&meant)
            }
            (Subject::Syscall { name, program_name }, EventSource::Syscall { pattern, .. }) => {
                let meant = |pattern: &str| {
                    piste_patterns::matches(pattern, name) || piste_patterns::matches(pattern, program_name)
                };
                meant(pattern) && !is_excluded(&meant)
            }
            (Subject::Probe { rule }, _) => rule == index,
            _ => false,
        }
    }
}

/// A stack that has what both want; a range can be only one, the first.
fn joined(one: Stack, other: Stack) -> Stack {
    Stack {
        kernel: one.kernel || other.kernel,
        user: one.user || other.user,
        depth: one.depth.zip(other.depth).map(|(one, other)| one.max(other)),
        range: one.range.or(other.range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, fields: &[&str]) -> Rule {
        let pattern = pattern.to_owned();
        Rule {
            source: EventSource::Tracepoint { pattern },
            excluded: vec!["sched_stat*".into()],
            filter: None,
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            stack: None,
            enabled: true,
        }
    }

    fn switch() -> Subject<'static> {
        Subject::Tracepoint {
            system: "sched",
            name: "sched_switch",
            trace_name: "sched_switch",
        }
    }

    #[test]
    fn each_rule_gets_what_it_wants() {
        let rules = [rule("sched*", &["prev_tid"]), rule("sched:*switch", &["next_tid"])];
        let detail = Detail::of(&rules, switch()).expect("both mean it");
        assert!(detail.has("prev_tid") && detail.has("next_tid") && !detail.has("prev_prio"));
        let rules = [rule("sched*", &["prev_tid"]), rule("*", &[])];
        assert_eq!(Detail::of(&rules, switch()), Some(Detail::default()));
        assert_eq!(Detail::of(&[rule("irq*", &[])], switch()), None);
    }

    #[test]
    fn a_disabled_rule_has_a_say_when_no_other_has() {
        let mut rules = [rule("sched*", &["prev_tid"]), rule("*", &["next_tid"])];
        rules[0].enabled = false;
        let detail = Detail::of(&rules, switch()).expect("one means it");
        assert!(!detail.has("prev_tid") && detail.has("next_tid"));
        rules[1].enabled = false;
        let detail = Detail::of(&rules, switch()).expect("both meant it");
        assert!(detail.has("prev_tid") && detail.has("next_tid"));
    }

    #[test]
    fn an_excluded_event_is_not_meant() {
        let subject = Subject::Tracepoint {
            system: "sched",
            name: "sched_stat_runtime",
            trace_name: "sched_stat_runtime",
        };
        assert_eq!(Detail::of(&[rule("*", &[])], subject), None);
    }
}
