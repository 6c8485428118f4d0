// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste-query`: SQL over traces, and their events as Parquet. `piste query` and `piste export --format parquet` become this program,
//! which is one of its own because DataFusion is: nobody else waits for it to be compiled, linked or loaded.
//!
//! ```text
//!   layout, kind           metadata -> tables and columns
//!   pushdown               conditions -> classes, streams, part of time: what has to be read
//!   scan, rows, fill,      packets -> batches of Arrow
//!   column, json_text
//!   model                  traces of the kernel -> rows of what threads, CPUs and devices did
//!   spans                  traces of programs -> rows of what they begin and end
//!   one_pass, batches      rows that come one by one -> batches of Arrow
//!   events, about_trace,   tables for DataFusion
//!   catalog
//!   session, prompt        statements -> batches
//!   output                 batches -> text, JSON, CSV, Arrow, Parquet
//!   export                 events -> a folder of Parquet
//! ```
//!
//! request.rs says how it is called.

mod about_trace;
mod batches;
mod catalog;
mod column;
mod events;
mod export;
mod failure;
mod fill;
mod imports;
mod interrupt;
mod json_text;
mod kind;
mod layout;
mod model;
mod one_pass;
mod output;
mod prompt;
mod pushdown;
mod request;
mod rows;
mod scan;
mod session;
mod spans;

use std::path::PathBuf;
use std::process::ExitCode;

use piste_reason::reason;
use piste_terminal::progress::Progress;
use piste_trace::{Findings, Trace, open_all};

use crate::export::Exported;
use crate::failure::{Failure, speak_json, tell, tell_failure, tell_findings};
use crate::imports::Imports;
use crate::interrupt::Interrupt;
use crate::layout::Layout;
use crate::request::{Arguments, Task};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(sentence) => {
            tell(&format!("piste-query: {sentence}"));
            return ExitCode::from(2);
        }
    };
    if arguments.request.task.json() {
        speak_json();
    }
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            tell(&format!("cannot handle signals: {}", reason(&error)));
            return ExitCode::FAILURE;
        }
    };
    match run(arguments, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Interrupted = failure {
                interrupt.end();
            }
            if let Some(sentence) = failure.sentence() {
                tell_failure(sentence, failure.status());
            }
            failure.status().into()
        }
    }
}

fn run(arguments: Arguments, interrupt: &Interrupt) -> Result<(), Failure> {
    let Arguments { request, output, paths } = arguments;
    let mut opened = Findings::default();
    let imports = Imports::of(&paths, request.task.progress(), interrupt)?;
    let progress = Progress::opening(request.task.progress());
    let traces = open(imports.places(), &mut opened)?;
    drop(progress);
    let layout = Layout::new(traces, request.task.symbols());
    match request.task {
        Task::Query(query) => session::query(&query, output.as_deref(), &layout, opened, interrupt),
        Task::Parquet(parquet) => {
            let output = output.ok_or_else(|| Failure::Usage("no output folder is given".into()))?;
            let Exported { events, findings } = export::export(&parquet, &output, &layout, interrupt)?;
            opened.extend(findings);
            layout.notes().iter().for_each(|note| tell(note));
            if parquet.json {
                let findings: Vec<_> = opened.iter().collect();
                let summary = serde_json::json!({ "output": output, "events": events, "findings": findings });
                println!("{summary:#}");
            } else {
                tell_findings(&opened);
                let ending = if events == 1 { "" } else { "s" };
                tell(&format!("{}: {events} event{ending}", output.display()));
            }
            Ok(())
        }
    }
}

/// Opens every trace in the paths. Those that cannot be opened are told of; that is a failure only when there is no other.
fn open(paths: &[PathBuf], findings: &mut Findings) -> Result<Vec<Trace>, Failure> {
    let (traces, errors) = open_all(paths, findings);
    let mut sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let failure = sentences.pop_if(|_| traces.is_empty());
    sentences.iter().for_each(|sentence| tell(sentence));
    failure.map_or(Ok(traces), |sentence| Err(Failure::Failed(sentence)))
}
