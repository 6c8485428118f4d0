// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-u PATTERN... -k PATTERN... --syscall PATTERN... --filter EXPR`: a filter belongs to the patterns before it, back to the filter before; one
//! that comes first belongs to all tracepoints and probes that have no filter of their own.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// Patterns of events and system calls with their filters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilteredPatterns {
    /// Of programs.
    pub(crate) userspace: Vec<FilteredPattern>,
    /// Of tracepoints.
    pub(crate) patterns: Vec<FilteredPattern>,
    pub(crate) syscalls: Vec<FilteredPattern>,
    /// The filter for all other tracepoints and probes.
    pub(crate) filter: Option<String>,
}

/// A pattern, and the filter that was given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilteredPattern {
    pub(crate) pattern: String,
    pub(crate) filter: Option<String>,
}

/// The options as clap knows them: without their order.
#[derive(Args)]
struct Given {
    /// Record matching events of programs; `*` matches any text [default: all]
    #[arg(short, long, value_name = "PATTERN", value_delimiter = ',', help_heading = Resettable::Reset, display_order = 1)]
    userspace: Vec<String>,
    /// Record matching tracepoints of the kernel: sched_switch,block:*
    #[arg(short, long, value_name = "PATTERN", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Record system calls with matching names: open*,read
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    syscall: Vec<String>,
    /// Record the events of the -u, -k and --syscall patterns since the previous --filter only if they satisfy EXPR: 'prev_prio < 0 && next_comm =~
    /// "k*"' (see piste-filter(7)). A --filter before the first pattern applies to all tracepoints and probes without a filter of their own, but not
    /// to system calls and events of programs
    #[arg(long, value_name = "EXPR")]
    filter: Vec<String>,
}

impl FilteredPatterns {
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.syscalls.is_empty()
    }

    /// Patterns and filters in the order of the command line, as (index, text) each.
    fn ordered(
        userspace: Vec<(usize, String)>,
        patterns: Vec<(usize, String)>,
        syscalls: Vec<(usize, String)>,
        filters: Vec<(usize, String)>,
    ) -> FilteredPatterns {
        let all = [&userspace, &patterns, &syscalls];
        let first = all.into_iter().filter_map(|list| list.first());
        let first = first.map(|(index, _)| *index).min().unwrap_or(usize::MAX);
        let (before, after): (Vec<_>, Vec<_>) = filters.into_iter().partition(|(index, _)| *index < first);
        let filter_of = |index: usize| after.iter().find(|(position, _)| *position > index);
        let filtered = |(index, pattern)| FilteredPattern {
            pattern,
            filter: filter_of(index).map(|(_, filter)| filter.clone()),
        };
        FilteredPatterns {
            userspace: userspace.into_iter().map(filtered).collect(),
            patterns: patterns.into_iter().map(filtered).collect(),
            syscalls: syscalls.into_iter().map(filtered).collect(),
            filter: before.into_iter().next_back().map(|(_, filter)| filter),
        }
    }
}

impl FromArgMatches for FilteredPatterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FilteredPatterns, Error> {
        let given = Given::from_arg_matches(matches)?;
        let indices = |name: &str| matches.indices_of(name).into_iter().flatten();
        Ok(FilteredPatterns::ordered(
            indices("userspace").zip(given.userspace).collect(),
            indices("kernel").zip(given.kernel).collect(),
            indices("syscall").zip(given.syscall).collect(),
            indices("filter").zip(given.filter).collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = FilteredPatterns::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FilteredPatterns {
    fn augment_args(command: Command) -> Command {
        Given::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::augment_args_for_update(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        patterns: FilteredPatterns,
    }

    fn check(line: &str, expected: &[(&str, Option<&str>)], for_all: Option<&str>) {
        let words = ["name"].into_iter().chain(line.split_whitespace());
        let seen = Line::try_parse_from(words).unwrap().patterns;
        let patterns: Vec<_> = seen
            .patterns
            .iter()
            .chain(&seen.syscalls)
            .chain(&seen.userspace)
            .map(|one| (one.pattern.as_str(), one.filter.as_deref()))
            .collect();
        assert_eq!(patterns, expected, "{line}");
        assert_eq!(seen.filter.as_deref(), for_all, "{line}");
    }

    #[test]
    fn a_filter_belongs_to_the_patterns_before_it() {
        check("", &[], None);
        check("-k a,b -k c", &[("a", None), ("b", None), ("c", None)], None);
        check(
            "-k a,b --filter x<1 -k c",
            &[("a", Some("x<1")), ("b", Some("x<1")), ("c", None)],
            None,
        );
        check(
            "-k a --filter x<1 -k b -k c --filter y>2",
            &[("a", Some("x<1")), ("b", Some("y>2")), ("c", Some("y>2"))],
            None,
        );
        check("--filter x<1 -k a", &[("a", None)], Some("x<1"));
        check("--filter x<1", &[], Some("x<1"));
        check(
            "-k a --syscall b --filter x<1 --syscall c -k d --filter y>2",
            &[
                ("a", Some("x<1")),
                ("d", Some("y>2")),
                ("b", Some("x<1")),
                ("c", Some("y>2")),
            ],
            None,
        );
        check(
            "-u a --filter x<1 -k b -u c",
            &[("b", None), ("a", Some("x<1")), ("c", None)],
            None,
        );
    }
}
