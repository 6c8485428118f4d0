// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a value was as long as the limit: what the snapshot of the flight recorder says of the time in which it was measured, as text and as JSON.

use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use piste_analysis::analyses::delay::{Delay, Late, Share};
use piste_ctf::read::clock::ClockScale;
use piste_latency::{Crossing, Measured};
use piste_modelling::{Ground, kernel_traces};
use piste_trace::{Finding, Findings, Span, Trace, open_all};
use serde_json::{Value, json};

use super::report::{self, time};
use crate::analyze::tables::moment;
use crate::columns::{Align, Cell, Columns};
use crate::moment::around;
use crate::page::Width;
use crate::quantity::counted;
use crate::screen::{STRONG, printable, styled};
use crate::summary::quoted;

/// A value as long as the limit, and what it was due to.
pub(super) struct Explained {
    /// Of what it is, behind the value: `on CPU 1`.
    what: String,
    cpu: Option<u32>,
    tid: i32,
    duration: Duration,
    /// What the kernel's counters say; absent for a loop that does not read them.
    meanwhile: Option<String>,
    /// What the snapshot says; otherwise why there is none.
    said: Result<Said, String>,
}

/// What a snapshot says.
struct Said {
    trace: String,
    /// As the trace has it, since 1970.
    span_ns: (i64, i64),
    shares: Vec<Named>,
    page_faults: u64,
    /// Commands that show the spot.
    commands: Vec<String>,
    findings: Vec<Finding>,
}

/// What kept the loop from getting on, and for how long.
struct Named {
    kind: &'static str,
    text: String,
    ns: i64,
}

impl Explained {
    /// A value of a loop. Reads the snapshot, if there is one.
    pub(super) fn of_loop(measured: &Measured, crossing: Crossing, snapshot: Result<&Path, String>) -> Explained {
        let cpu = measured.cpu;
        Explained {
            what: format!("on CPU {cpu}"),
            cpu: Some(cpu),
            tid: crossing.tid,
            duration: crossing.duration,
            meanwhile: crossing.seen.map(|seen| report::meanwhile(measured, &seen)),
            said: snapshot.and_then(|folder| {
                read(folder, |traces| {
                    let end_ns = end_ns(traces, &crossing)?;
                    let steal = crossing.seen.and_then(|seen| seen.steal).unwrap_or_default();
                    Some(Late {
                        tid: crossing.tid,
                        begin_ns: end_ns - whole_ns(crossing.duration),
                        end_ns,
                        cpu: Some(cpu),
                        steal_ns: whole_ns(steal),
                    })
                })
            }),
        }
    }

    /// From an event of a program to another one, on one thread. `what` says which.
    pub(super) fn of_program(
        what: String,
        tid: i32,
        duration: Duration,
        end_ns: i64,
        snapshot: Result<&Path, String>,
    ) -> Explained {
        let late = Late {
            tid,
            begin_ns: end_ns - whole_ns(duration),
            end_ns,
            cpu: None,
            steal_ns: 0,
        };
        Explained {
            what,
            cpu: None,
            tid,
            duration,
            meanwhile: None,
            said: snapshot.and_then(|folder| read(folder, |_| Some(late))),
        }
    }
}

fn whole_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// What a snapshot says of the interval that `late` knows.
fn read(folder: &Path, late: impl FnOnce(&[Trace]) -> Option<Late>) -> Result<Said, String> {
    let cannot = |why: String| {
        format!(
            "cannot read the snapshot in {}: {why}",
            quoted(&folder.to_string_lossy())
        )
    };
    let mut findings = Findings::default();
    let (traces, errors) = open_all(&[folder.to_owned()], &mut findings);
    if let Some(error) = errors.first() {
        return Err(cannot(error.to_string()));
    }
    let traces = kernel_traces(traces).map_err(|error| cannot(error.to_string()))?;
    let late = late(&traces).ok_or_else(|| cannot("it uses a clock that the loop did not read".into()))?;
    let ground = Ground::new(&traces, Span::ALL).map_err(|error| cannot(error.to_string()))?;
    let (system, delay) = ground
        .run(Delay::new(late), &mut findings)
        .map_err(|error| cannot(error.to_string()))?;
    let found = delay.found(&system);
    let named = |share: &Share| Named {
        kind: share.culprit.kind(),
        text: share.culprit.text(&system),
        ns: share.ns,
    };
    let path = quoted(&folder.to_string_lossy()).into_owned();
    let span_ns = (late.begin_ns, late.end_ns);
    let [begin, end] = around(span_ns, Span::of(&traces));
    Ok(Said {
        trace: folder.to_string_lossy().into_owned(),
        span_ns,
        shares: found.shares.iter().map(named).collect(),
        page_faults: found.page_faults,
        commands: vec![
            format!("piste view {path} --begin {begin} --end {end}"),
            format!("piste web --open {path}"),
        ],
        findings: findings.iter().cloned().collect(),
    })
}

/// When the value ended, on the clock of the kernel's trace.
fn end_ns(traces: &[Trace], crossing: &Crossing) -> Option<i64> {
    let clock = traces.iter().find_map(|trace| trace.schema().clocks.first())?;
    let scale = ClockScale::new(clock);
    match clock.name.as_str() {
        "monotonic" => scale.nanoseconds(crossing.end_monotonic_ns),
        _ => scale.nanoseconds(crossing.end_tsc?),
    }
}

impl Explained {
    /// `5.04 ms on CPU 1, from 09:41:07.213402880 to 09:41:07.218441022`
    fn heading(&self) -> String {
        let of = format!(" {}", printable(&self.what));
        match &self.said {
            Ok(said) => {
                let zone = TimeZone::system();
                let [begin, end] = [said.span_ns.0, said.span_ns.1].map(|ns| moment(ns, &zone));
                format!("{of}, from {begin} to {end}")
            }
            Err(_) => match &self.meanwhile {
                Some(meanwhile) => format!("{of}; meanwhile: {meanwhile}"),
                None => of,
            },
        }
    }

    fn value(&self) -> String {
        time(self.duration.as_nanos() as f64)
    }

    /// The value, what kept the thread from getting on, and how to see more.
    pub(super) fn text(&self, width: Width) -> String {
        let heading = format!("{}{}\n", styled(STRONG, self.value()), self.heading());
        let said = match &self.said {
            Ok(said) => said,
            Err(why) => return format!("{heading}no flight recorder shows the cause: {}\n", printable(why)),
        };
        let mut columns = Columns::new(&[
            ("TIME", Align::Right),
            ("SHARE", Align::Right),
            ("WHAT DELAYED IT", Align::Left),
        ]);
        for [time, share, what] in said.rows() {
            columns.row([Cell::from(time), share.into(), what.into()]);
        }
        let mut text = heading + &columns.lines(0, width);
        if said.page_faults > 0 {
            text += &format!("{} of the thread\n", counted(said.page_faults as i64, "page fault"));
        }
        text += &format!("snapshot of the flight recorder: {}\n", printable(&said.trace));
        for command in &said.commands {
            text += &format!("  {}\n", printable(command));
        }
        text
    }

    /// The same for a page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            div class="scroll" {
                table {
                    caption { strong { (self.value()) } (self.heading()) }
                    @match &self.said {
                        Ok(said) => {
                            thead {
                                tr {
                                    th class="number" scope="col" { "Time" }
                                    th class="number" scope="col" { "Share" }
                                    th scope="col" { "What delayed it" }
                                }
                            }
                            tbody {
                                @for [time, share, what] in said.rows() {
                                    tr { td class="number" { (time) } td class="number" { (share) } td { (what) } }
                                }
                            }
                        }
                        Err(why) => { tbody { tr { td { "No flight recorder shows the cause: " (printable(why)) } } } }
                    }
                }
            }
            @if let Ok(said) = &self.said {
                p class="more" {
                    "Snapshot of the flight recorder: " code { (printable(&said.trace)) }
                }
            }
        }
    }

    /// For `crossings` in the JSON.
    pub(super) fn json(&self) -> Value {
        let mut answer = json!({
            "tid": self.tid,
            "duration_ns": self.duration.as_nanos() as u64,
        });
        if let Some(cpu) = self.cpu {
            answer["cpu"] = json!(cpu);
        }
        match &self.said {
            Err(why) => answer["why_unexplained"] = json!(why),
            Ok(said) => {
                answer["begin_ns"] = json!(said.span_ns.0.to_string());
                answer["end_ns"] = json!(said.span_ns.1.to_string());
                let cause = |share: &Named| {
                    json!({
                        "cause": share.kind,
                        "what": share.text,
                        "ns": share.ns,
                        "share_percent": (said.percent(share) * 10.0).round() / 10.0,
                    })
                };
                answer["causes"] = said.shares.iter().map(cause).collect();
                answer["page_faults"] = json!(said.page_faults);
                answer["trace"] = json!(said.trace);
                answer["commands"] = json!(said.commands);
                answer["findings"] = json!(said.findings);
            }
        }
        answer
    }
}

impl Said {
    /// Of each share: its time, its part of all, and what it was.
    fn rows(&self) -> impl Iterator<Item = [String; 3]> {
        let row = |share: &Named| {
            let percent = format!("{:.1} %", self.percent(share));
            [time(share.ns as f64), percent, printable(&share.text).into_owned()]
        };
        self.shares.iter().map(row)
    }

    fn percent(&self, share: &Named) -> f64 {
        100.0 * share.ns as f64 / (self.span_ns.1 - self.span_ns.0).max(1) as f64
    }
}
