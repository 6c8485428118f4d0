// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that a command reads: opening all that can be opened, and telling what is wrong with them.

use std::path::PathBuf;

use piste_modelling::{GroundError, Symbols, kernel_traces};
use piste_terminal::progress::Progress;
use piste_trace::{Finding, Findings, Kind, Trace, open_all};
use serde_json::json;

use crate::failure::Failure;
use crate::imported;
use crate::quantity::count;
use crate::screen::{printable, speaks_json, tell, tell_json, tell_sentence};

/// Opens every trace in the paths. Those that cannot be opened are told of; that is a failure only when there is no other. Where it takes
/// long and that is wanted, progress is shown.
pub(crate) fn open(paths: &[PathBuf], shows_progress: bool, findings: &mut Findings) -> Result<Vec<Trace>, Failure> {
    let (paths, failures) = places(paths, shows_progress);
    let progress = Progress::opening(shows_progress);
    let (traces, errors) = open_all(&paths, findings);
    drop(progress);
    let errors = errors.iter().map(|error| printable(&error.to_string()).into_owned());
    let mut sentences: Vec<String> = failures.into_iter().chain(errors).collect();
    let failure = sentences.pop_if(|_| traces.is_empty());
    sentences.iter().for_each(|sentence| tell_sentence(sentence));
    failure.map_or(Ok(traces), |sentence| Err(Failure::new(sentence)))
}

/// Where the traces of paths are, and why some cannot be had.
fn places(paths: &[PathBuf], shows_progress: bool) -> (Vec<PathBuf>, Vec<String>) {
    let (mut places, mut failures) = (Vec::new(), Vec::new());
    for path in paths {
        match imported::place(path, shows_progress) {
            Ok(place) => places.push(place),
            Err(Failure::Told { sentence, .. }) => failures.push(sentence),
            Err(Failure::ReaderGone) => {}
        }
    }
    (places, failures)
}

/// Those of a kernel. Where there is none that can be read, what is damaged is told.
pub(crate) fn kernel_part(traces: Vec<Trace>, findings: &Findings) -> Result<Vec<Trace>, Failure> {
    let is_unread = |finding: &Finding| {
        matches!(
            finding.kind,
            Kind::DamagedMetadata | Kind::UnreadableFile | Kind::MissingTrace
        )
    };
    kernel_traces(traces).map_err(|error| match error {
        GroundError::NoKernel if findings.iter().any(is_unread) => {
            tell_findings(findings);
            Failure::new("no kernel trace can be read here")
        }
        error => error.into(),
    })
}

/// Tells what was found, a line each; losses are told in other words.
pub(crate) fn tell_findings(findings: &Findings) {
    let told = findings.iter().filter(|finding| !is_loss(finding));
    match speaks_json() {
        true => told.for_each(|finding| tell_json(&json!({ "finding": finding }))),
        false => tell(&told.map(line).collect::<String>()),
    }
}

/// Tells which names of addresses are not known, and why.
pub(crate) fn tell_symbols(symbols: Option<&Symbols<'_>>) {
    for note in symbols.map(Symbols::notes).unwrap_or_default() {
        tell_sentence(&printable(&note));
    }
}

pub(crate) fn is_loss(finding: &Finding) -> bool {
    matches!(finding.kind, Kind::DiscardedEvents | Kind::LostPackets)
}

fn line(finding: &Finding) -> String {
    format!("piste: {}\n", sentence(finding))
}

/// `trace/channel0_1: the file ends after 40 of 68 bytes of the packet, at byte 136`
pub(crate) fn sentence(finding: &Finding) -> String {
    let file = imported::shown(&finding.file);
    let file = file.to_string_lossy();
    let place = finding.place(|times| count(times.cast_signed()));
    format!("{}: {}{place}", printable(&file), printable(&finding.what))
}
