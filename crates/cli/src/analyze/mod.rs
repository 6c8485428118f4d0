// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze`: answers from traces. What it reads is prepared by `piste_modelling`, what it has found out is shown by tables.rs.

mod code;
mod periods;
mod programs;
pub(crate) mod tables;

use jiff::tz::TimeZone;
use piste_analysis::analyses::ALL;
use piste_analysis::analysis::{Description, Options};
use piste_analysis::pass::Listeners;
use piste_analysis::periods::Periods;
use piste_analysis::report::Report;
use piste_modelling::{Ground, is_of_kernel, missing, span_read};
use piste_patterns::nearest;
use piste_terminal::progress::Progress;
use piste_trace::{Finding, Findings, Span, Trace};
use serde::Serialize;
use serde_json::json;

use self::tables::Look;
use crate::arguments::{Analyze, PeriodsOptions};
use crate::columns::{Align, Columns};
use crate::failure::{Failure, USAGE};
use crate::insights::command;
use crate::json::time;
use crate::page::Page;
use crate::screen::{printable, tell_sentence};
use crate::traces::{kernel_part, open, tell_findings};

/// As `--json` prints it.
#[derive(Serialize)]
struct Answer<'a> {
    analysis: &'a str,
    /// The part of time that was looked at.
    #[serde(serialize_with = "time")]
    begin_ns: i64,
    #[serde(serialize_with = "time")]
    end_ns: i64,
    #[serde(flatten)]
    report: &'a Report,
    findings: Vec<&'a Finding>,
}

/// What an analysis that does without the model is asked.
pub(crate) struct Question<'a> {
    pub(crate) traces: &'a [Trace],
    pub(crate) span: Span,
    pub(crate) options: Options,
    pub(crate) periods: &'a PeriodsOptions,
    pub(crate) shows_progress: bool,
}

/// `piste analyze`
pub(crate) fn analyze(arguments: &Analyze, json: bool) -> Result<(), Failure> {
    let Some(name) = &arguments.name else {
        return list(&Page::new(&arguments.page), json);
    };
    let subject = Subject::find(name)?;
    if let Some(wanted) = &arguments.table {
        subject.expect_table(wanted)?;
    }
    if arguments.paths.is_empty() {
        return Err(Failure::with_status(
            format!("no trace is given; write `piste analyze {name} TRACE`"),
            USAGE,
        ));
    }
    let zone = TimeZone::system();
    let mut findings = Findings::default();
    let traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    let traces = subject.choose(traces, &findings)?;
    let span = arguments.range.span(&traces, || zone.clone())?;
    let question = Question {
        traces: &traces,
        span,
        options: options(arguments),
        periods: &arguments.periods,
        shows_progress: arguments.progress.wanted,
    };
    if arguments.folded {
        let notes = subject.folded(&question, arguments.table.as_deref(), &mut findings)?;
        tell_notes(&notes, &findings);
        return Ok(());
    }
    let (mut report, (begin_ns, end_ns)) = match subject {
        Subject::Kernel(description) => of_kernel(description, &question, &mut findings)?,
        Subject::Programs(description) => {
            let (outcome, told) = programs::outcome(description, &question, &mut findings)?;
            (outcome.report, told)
        }
        Subject::Periods => {
            let (mut report, told) = periods::report(&question, &mut findings)?;
            let closer = periods::closer(&report).map(|closer| command(&closer, &arguments.paths, Span::of(&traces)));
            report
                .notes
                .extend(closer.map(|command| format!("to see what the longest period depended on: `{command}`")));
            (report, told)
        }
    };
    if let Some(wanted) = &arguments.table {
        report.tables.retain(|table| table.name == wanted);
        if report.tables.is_empty() {
            return Err(Failure::new(format!(
                "analysis {name} has no table {wanted:?} for this trace"
            )));
        }
    }
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&Answer {
            analysis: name,
            begin_ns,
            end_ns,
            report: &report,
            findings: findings.iter().collect(),
        });
    }
    if arguments.csv {
        let tables: Vec<String> = report.tables.iter().map(piste_analysis::report::Table::csv).collect();
        page.show(&tables.join("\n"))?;
    } else {
        let look = Look {
            zone: &zone,
            width: page.width(),
            has_all_rows: arguments.table.is_some() || arguments.limit.is_some(),
        };
        page.show(&tables::text(&report, &look))?;
    }
    tell_notes(report.all_notes(), &findings);
    Ok(())
}

/// What an analysis is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Kernel(&'static Description),
    Programs(&'static piste_analysis::programs::Description),
    Periods,
}

impl Subject {
    /// The analysis with a name.
    pub(crate) fn find(name: &str) -> Result<Subject, Failure> {
        if name == periods::NAME {
            return Ok(Subject::Periods);
        }
        if let Some(description) = programs::find(name) {
            return Ok(Subject::Programs(description));
        }
        let known = ALL.iter().find(|known| known.name == name);
        known.map(|known| Subject::Kernel(known)).ok_or_else(|| {
            let near = nearest(name, all().map(|(known, _)| known), 3);
            let hint = match near.is_empty() {
                true => "`piste analyze` lists all".to_owned(),
                false => format!("did you mean {}?", near.join(", ")),
            };
            Failure::with_status(format!("there is no analysis {name:?}; {hint}"), USAGE)
        })
    }

    /// The names of the tables that it may have.
    pub(crate) fn tables(self) -> &'static [&'static str] {
        match self {
            Subject::Kernel(description) => description.tables,
            Subject::Programs(description) => description.tables,
            Subject::Periods => Periods::TABLES,
        }
    }

    fn expect_table(self, wanted: &str) -> Result<(), Failure> {
        let tables = self.tables();
        match tables.contains(&wanted) {
            true => Ok(()),
            false => Err(Failure::with_status(
                format!("there is no table {wanted:?}; the tables are {}", tables.join(", ")),
                USAGE,
            )),
        }
    }

    /// The traces that it is about.
    pub(crate) fn choose(self, mut traces: Vec<Trace>, findings: &Findings) -> Result<Vec<Trace>, Failure> {
        if let Subject::Kernel(_) = self {
            return kernel_part(traces, findings);
        }
        // Those of a kernel beside each other: only together they have all CPUs.
        traces.sort_by_key(|trace| !is_of_kernel(trace));
        Ok(traces)
    }

    /// What it finds out, for a comparison; the name of the analysis, and the part of time.
    pub(crate) fn compare(
        self,
        question: &Question<'_>,
        findings: &mut Findings,
    ) -> Result<(&'static str, Report, (i64, i64)), Failure> {
        match self {
            Subject::Kernel(description) => {
                let (report, told) = of_kernel(description, question, findings)?;
                Ok((description.name, report, told))
            }
            Subject::Programs(description) => {
                let (outcome, told) = programs::outcome(description, question, findings)?;
                Ok((description.name, outcome.into_comparable(), told))
            }
            Subject::Periods => {
                let (report, told) = periods::report(question, findings)?;
                Ok((periods::NAME, report, told))
            }
        }
    }

    fn folded(
        self,
        question: &Question<'_>,
        table: Option<&str>,
        findings: &mut Findings,
    ) -> Result<Vec<String>, Failure> {
        match self {
            Subject::Programs(description) => programs::folded(description, question, table, findings),
            _ => Err(Failure::with_status("--folded works only with flame", USAGE)),
        }
    }
}

fn tell_notes<'n>(notes: impl IntoIterator<Item = &'n String>, findings: &Findings) {
    for note in notes {
        tell_sentence(&printable(note));
    }
    tell_findings(findings);
}

/// What an analysis of the kernel's traces says, and of which part of time.
fn of_kernel(
    description: &Description,
    question: &Question<'_>,
    findings: &mut Findings,
) -> Result<(Report, (i64, i64)), Failure> {
    let (traces, span) = (question.traces, question.span);
    let notes = missing(description.name, description.needs, traces)?;
    let analyses = Listeners(vec![(description.begin)(&question.options)]);
    let progress = Progress::of("analyzing", traces, span_read(span, &analyses), question.shows_progress);
    let ground = Ground::new(traces, span)?;
    let (system, mut analyses) = ground.run(analyses, findings)?;
    drop(progress);
    let mut report = analyses.reports(&system).pop().unwrap_or_default();
    report.notes.splice(
        0..0,
        notes.into_iter().chain(ground.notes(Some(&system), description.needs)),
    );
    Ok((report, system.told()))
}

/// All analyses: their names, and what they answer.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_kernel = ALL.iter().map(|one| (one.name, one.about));
    let of_programs = piste_analysis::programs::ALL.iter().map(|one| (one.name, one.about));
    of_kernel.chain(of_programs).chain([(periods::NAME, periods::ABOUT)])
}

/// The names of all analyses.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| name)
}

fn list(page: &Page, json: bool) -> Result<(), Failure> {
    if json {
        let entry = |(name, about)| json!({ "name": name, "about": about });
        return page.show_json(&json!({ "analyses": all().map(entry).collect::<Vec<_>>() }));
    }
    let mut columns = Columns::new(&[("ANALYSIS", Align::Left), ("ANSWERS", Align::Left)]);
    for (name, about) in all() {
        columns.row([name.into(), about.into()]);
    }
    page.show(&columns.lines(0, page.width()))
}

fn options(arguments: &Analyze) -> Options {
    Options {
        who: arguments.cgroups.who(&arguments.whose),
        limit: arguments.limit,
        min_ns: arguments.min_ns,
        max_ns: arguments.max_ns,
    }
}
