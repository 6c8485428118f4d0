// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-k PATTERN... --filter EXPR`: a filter belongs to the patterns before it, back to the filter before; one that comes first
//! belongs to everything that has no filter of its own.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// Patterns of tracepoints with their filters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilteredPatterns {
    pub(crate) patterns: Vec<FilteredPattern>,
    /// The filter for all others.
    pub(crate) filter: Option<String>,
}

/// A pattern, and the filter that was given for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilteredPattern {
    pub(crate) pattern: String,
    pub(crate) filter: Option<String>,
}

/// The options as clap knows them: without their order.
#[derive(Args)]
struct Given {
    /// Record matching tracepoints of the kernel: sched_switch,block:*
    #[arg(short, long, value_name = "PATTERN", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Record the events of the -k patterns since the previous --filter only if they satisfy EXPR: 'prev_prio < 0 && next_comm =~ "k*"'
    /// (see piste-filter(7)). A --filter before the first -k applies to all tracepoints and probes that have no filter of their own
    #[arg(long, value_name = "EXPR")]
    filter: Vec<String>,
}

impl FilteredPatterns {
    /// Patterns and filters in the order of the command line, as (index, text) each.
    fn ordered(patterns: Vec<(usize, String)>, filters: Vec<(usize, String)>) -> FilteredPatterns {
        let first = patterns.first().map_or(usize::MAX, |(index, _)| *index);
        let (before, after): (Vec<_>, Vec<_>) = filters.into_iter().partition(|(index, _)| *index < first);
        let filter_of = |index: usize| after.iter().find(|(position, _)| *position > index);
        FilteredPatterns {
            patterns: patterns
                .into_iter()
                .map(|(index, pattern)| FilteredPattern {
                    pattern,
                    filter: filter_of(index).map(|(_, filter)| filter.clone()),
                })
                .collect(),
            filter: before.into_iter().next_back().map(|(_, filter)| filter),
        }
    }
}

impl FromArgMatches for FilteredPatterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FilteredPatterns, Error> {
        let given = Given::from_arg_matches(matches)?;
        let indices = |name: &str| matches.indices_of(name).into_iter().flatten();
        Ok(FilteredPatterns::ordered(
            indices("kernel").zip(given.kernel).collect(),
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
    }
}
