// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste calibrate`: what recording an event costs on this machine, by the kind of event. It is kept in a file, from which analyses know how much of
//! a duration was the recording itself. (The verb is that of David Goulet's tools for LTTng, 2012.)

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use piste_bench::report::{Absent, Estimate, Row};
use piste_bench::{Report, Scale};
use piste_reason::reason;
use piste_trace::Trace;
use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::arguments::Calibrate;
use crate::bench::{self, Wanted};
use crate::columns::{Align, Cell, Columns};
use crate::failure::{Failure, INTERRUPTED};
use crate::page::{Page, Width};
use crate::screen::printable;
use crate::unfinished::Unfinished;

/// The format that [`Calibration::format`] says.
const FORMAT: u32 = 1;
/// The file, if it is to be another one than usual.
const VARIABLE: &str = "PISTE_CALIBRATION";
/// Where root keeps it, for all users.
const OF_ROOT: &str = "/var/lib/piste/calibration.json";

/// What recording costs on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calibration {
    /// [`FORMAT`].
    format: u32,
    /// When it was measured: nanoseconds since 1970, in digits.
    measured_ns: String,
    /// The machine: its name, processor and kernel.
    hostname: String,
    processor: String,
    kernel: String,
    /// It was measured for a few seconds only.
    is_quick: bool,
    /// For each kind of event that could be measured.
    costs: Vec<Cost>,
    /// Those that could not be.
    missing: Vec<Missing>,
}

/// What recording an event of a kind takes the thread that it happens on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cost {
    kind: Kind,
    /// With its interval, as in `piste bench`.
    ns: Estimate,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Missing {
    kind: Kind,
    reason: String,
    remedy: Option<String>,
}

/// Events that cost about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Of a program, with the default contexts.
    Program,
    /// Of a program, formatted (`piste_printf` and `piste_log`).
    Formatted,
    /// Of the kernel, but for system calls. Probes cost more.
    Kernel,
    /// Entry or exit of a system call, recorded with what its arguments point to.
    SystemCall,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Program, Kind::Formatted, Kind::Kernel, Kind::SystemCall];

    /// Which row of `piste bench` measures it, and how many events it has.
    fn row(self) -> (&'static str, f64) {
        match self {
            Kind::Program => ("piste-contexts", 1.0),
            Kind::Formatted => ("piste-formatted", 1.0),
            Kind::Kernel => ("tracefs", 2.0),
            Kind::SystemCall => ("piste-call", 2.0),
        }
    }

    fn about(self) -> &'static str {
        match self {
            Kind::Program => "event of a program",
            Kind::Formatted => "formatted event of a program",
            Kind::Kernel => "event of the kernel",
            Kind::SystemCall => "entry or exit of a system call",
        }
    }

    fn of(is_of_kernel: bool, name: &str) -> Kind {
        match is_of_kernel {
            true if name.contains("syscall_entry_") || name.contains("syscall_exit_") => Kind::SystemCall,
            true => Kind::Kernel,
            false if name == "piste:printf" || name.starts_with("piste:log_") => Kind::Formatted,
            false => Kind::Program,
        }
    }
}

/// `piste calibrate`
pub(crate) fn calibrate(arguments: &Calibrate, json: bool) -> Result<(), Failure> {
    let page = Page::new(&arguments.page);
    let host = uname().nodename().to_string_lossy().into_owned();
    let calibration = if arguments.show {
        let kept = Calibration::kept();
        kept.into_iter()
            .find(|kept| kept.hostname == host)
            .ok_or_else(|| Failure::new("no calibration is saved for this machine; run: sudo piste calibrate"))?
    } else {
        let measured = bench::measured(
            &Wanted {
                chosen: Kind::ALL.map(|kind| kind.row().0.to_owned()).to_vec(),
                threads: vec![1],
                processes: Vec::new(),
                payloads: Vec::new(),
                names: Vec::new(),
                scale: if arguments.quick { Scale::QUICK } else { Scale::FULL },
            },
            json,
        )?;
        if measured.was_interrupted {
            return Err(Failure::with_status(
                "the measurement was interrupted, so nothing was saved",
                INTERRUPTED,
            ));
        }
        Calibration::of(&measured, host)
    };
    if calibration.costs.is_empty() {
        let why = calibration.missing.first().map(Missing::sentence).unwrap_or_default();
        return Err(Failure::new(format!("nothing could be measured: {}", printable(&why))));
    }
    let path = match arguments.show {
        true => None,
        false => Some(calibration.keep()?),
    };
    match json {
        true => page.show_json(&calibration),
        false => page.show(&calibration.text(path.as_deref(), page.width())),
    }
}

impl Calibration {
    fn of(measured: &Report, hostname: String) -> Calibration {
        let (mut costs, mut missing) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let (name, events) = kind.row();
            match measured.rows.iter().find(|row| row.name == name) {
                None => missing.push(Missing::of(kind, measured, name)),
                Some(row) => match cost_of(row, events) {
                    Some(ns) => costs.push(Cost { kind, ns }),
                    None => missing.push(Missing {
                        kind,
                        reason: "other work on the machine disturbed it too much".to_owned(),
                        remedy: Some("run it again while the machine is idle".to_owned()),
                    }),
                },
            }
        }
        Calibration {
            format: FORMAT,
            measured_ns: measured.begin_ns.clone(),
            hostname,
            processor: measured.machine.processor.clone(),
            kernel: measured.machine.kernel.clone(),
            is_quick: measured.method.is_quick,
            costs,
            missing,
        }
    }

    /// Those that are kept here: of this user, then of root.
    fn kept() -> Vec<Calibration> {
        let read = |path: PathBuf| {
            let calibration: Calibration = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
            (calibration.format == FORMAT).then_some(calibration)
        };
        let own = own_path();
        let of_root = Some(PathBuf::from(OF_ROOT)).filter(|_| env::var_os(VARIABLE).is_none());
        own.into_iter().chain(of_root).filter_map(read).collect()
    }

    /// Writes it, and returns where.
    fn keep(&self) -> Result<PathBuf, Failure> {
        let path = own_path().ok_or_else(|| Failure::new(format!("cannot save the result: set HOME or {VARIABLE}")))?;
        let cannot = |error: &io::Error| {
            let path = path.to_string_lossy();
            Failure::new(format!("cannot write {}: {}", printable(&path), reason(error)))
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| cannot(&error))?;
        }
        let (unfinished, mut file) = Unfinished::file(&path)?;
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        file.write_all(&text).map_err(|error| cannot(&error))?;
        unfinished.finish()?;
        Ok(path)
    }

    fn text(&self, path: Option<&Path>, width: Width) -> String {
        let mut table = Columns::new(&[("RECORDING", Align::Left), ("TAKES", Align::Right), ("", Align::Left)]);
        for cost in &self.costs {
            let spread = cost.ns.high.zip(cost.ns.low).map_or_else(String::new, |(high, low)| {
                format!("± {:.0} %", (high - low) / 2.0 / cost.ns.value * 100.0)
            });
            table.row([
                Cell::from(cost.kind.about()),
                Cell::from(format!("{} ns", bench::ns(cost.ns.value))),
                Cell::from(spread),
            ]);
        }
        let mut text = format!("{}, Linux {}\n\n", printable(&self.processor), printable(&self.kernel));
        text += &table.lines(0, width);
        for missing in &self.missing {
            text += &format!(
                "not measured: {}: {}\n",
                missing.kind.about(),
                printable(&missing.sentence())
            );
        }
        match path {
            Some(path) => text += &format!("\nkept in {}\n", printable(&path.to_string_lossy())),
            None => text += &format!("\nmeasured {}\n", self.date()),
        }
        text
    }

    fn date(&self) -> String {
        let ns = self.measured_ns.parse().ok();
        let time = ns.and_then(|ns: i128| Timestamp::from_nanosecond(ns).ok());
        time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d").to_string())
    }
}

/// What recording took of the time of threads, where it is known.
pub(crate) struct RecordingCosts {
    calibration: Calibration,
}

impl RecordingCosts {
    /// For traces that Piste recorded on the machine of a calibration; absent if one of them is of another machine, kernel or tracer.
    pub(crate) fn of(traces: &[Trace]) -> Option<RecordingCosts> {
        let is_of = |calibration: &Calibration| {
            traces.iter().all(|trace| {
                let has = |key: &str, value: &str| trace.environment(key) == Some(value);
                has("hostname", &calibration.hostname)
                    && has("kernel_release", &calibration.kernel)
                    && trace.environment("piste_version").is_some()
            })
        };
        let mut kept = Calibration::kept().into_iter().filter(is_of);
        let mut calibration = kept.next()?;
        // Without root, a user can measure only some kinds.
        for cost in kept.flat_map(|other| other.costs) {
            if !calibration.costs.iter().any(|known| known.kind == cost.kind) {
                calibration.costs.push(cost);
            }
        }
        Some(RecordingCosts { calibration })
    }

    /// Of an event of this class; absent if that could not be measured.
    pub(crate) fn ns(&self, is_of_kernel: bool, name: &str) -> Option<f64> {
        let kind = Kind::of(is_of_kernel, name);
        let cost = self.calibration.costs.iter().find(|cost| cost.kind == kind)?;
        Some(cost.ns.value)
    }

    /// Where the figures are from.
    pub(crate) fn note(&self) -> String {
        let date = self.calibration.date();
        let quick = if self.calibration.is_quick { ", --quick" } else { "" };
        let is_unknown = |kind: &Kind| !self.calibration.costs.iter().any(|cost| cost.kind == *kind);
        let unknown: Vec<&str> = Kind::ALL.into_iter().filter(is_unknown).map(Kind::about).collect();
        let unknown = match &unknown[..] {
            [] => String::new(),
            unknown => format!("; unknown costs count as zero: {}", unknown.join(", ")),
        };
        format!(
            "RECORDING is an estimate from the number of recorded events and their cost on this machine (piste calibrate, {date}{quick}){unknown}"
        )
    }
}

/// What an event of a row costs; absent if recorded calls were not slower than others.
fn cost_of(row: &Row, events: f64) -> Option<Estimate> {
    // For a call, what is added to it; its interval is as wide as that of the whole.
    let value = row.added_ns.unwrap_or(row.time_ns.value);
    let part = |bound: f64| ((bound - row.time_ns.value + value) / events).max(0.0);
    (value > 0.0).then(|| Estimate {
        value: value / events,
        low: row.time_ns.low.map(part),
        high: row.time_ns.high.map(part),
    })
}

impl Missing {
    fn of(kind: Kind, measured: &Report, row: &str) -> Missing {
        let peer = bench::peer_of(row);
        let absent = measured.absent.iter().find(|absent| absent.peer == peer);
        let failed = measured.failed.iter().find(|failed| failed.peer == peer);
        let (reason, remedy) = match (absent, failed) {
            (Some(Absent { reason, remedy, .. }), _) => (reason.clone(), remedy.clone()),
            (None, Some(failed)) => (failed.reason.clone(), None),
            (None, None) => ("it was interrupted".to_owned(), None),
        };
        Missing { kind, reason, remedy }
    }

    fn sentence(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.reason),
            None => self.reason.clone(),
        }
    }
}

/// Where this user keeps it.
fn own_path() -> Option<PathBuf> {
    let of = |variable: &str| {
        env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = of(VARIABLE) {
        return Some(path);
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(OF_ROOT));
    }
    let state = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(state.join("piste/calibration.json"))
}
