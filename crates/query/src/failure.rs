// SPDX-License-Identifier: MIT OR Apache-2.0
//! How this program fails: a sentence for stderr and an exit status, the same as those of `piste`.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use piste_reason::reason;
use piste_terminal::fit::wrapped;
use piste_terminal::{Size, printable};
use piste_trace::Findings;
use piste_trace::Kind;
use serde_json::{Value, json};

/// Why it ends here.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for cannot be understood.
    Usage(String),
    /// It could not be done.
    Failed(String),
    /// Nobody reads the output any more; there is nobody to tell.
    ReaderGone,
    /// A signal ended it.
    Interrupted,
}

impl Failure {
    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::ReaderGone => 0,
            Failure::Interrupted => 130,
        }
    }

    /// What there is to tell.
    pub(crate) fn sentence(&self) -> Option<&str> {
        match self {
            Failure::Failed(sentence) | Failure::Usage(sentence) => Some(sentence),
            Failure::ReaderGone | Failure::Interrupted => None,
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Failure {
        match error.find_root() {
            DataFusionError::SchemaError(schema, _) => Failure::Usage(of_schema(schema)),
            DataFusionError::SQL(error, _) => Failure::Usage(format!("the SQL is invalid: {error}")),
            DataFusionError::Plan(what) => Failure::Usage(format!("the SQL is invalid: {what}")),
            DataFusionError::NotImplemented(what) => {
                Failure::Usage(format!("the SQL uses something that is not supported: {what}"))
            }
            DataFusionError::ResourcesExhausted(what) => Failure::Failed(format!(
                "the query needs more memory than --memory-bytes allows; allow more, or select less: {what}"
            )),
            DataFusionError::External(error) => Failure::Failed(error.to_string()),
            DataFusionError::IoError(error) => error.into(),
            DataFusionError::ArrowError(error, _) => match &**error {
                arrow::error::ArrowError::IoError(_, error) => error.into(),
                other => Failure::Failed(other.to_string()),
            },
            _ => Failure::Failed(error.strip_backtrace()),
        }
    }
}

impl From<arrow::error::ArrowError> for Failure {
    fn from(error: arrow::error::ArrowError) -> Failure {
        DataFusionError::from(error).into()
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::Failed(format!("cannot write the output: {}", reason(error))),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        (&error).into()
    }
}

/// A table of events may have hundreds of columns: those that look like the one that was meant are named.
fn of_schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let known = valid_fields.iter().map(|column| column.name.as_str());
            let near = piste_patterns::nearest(&field.name, known, 3);
            let hint = match near.is_empty() {
                true => "; `DESCRIBE events` lists all".to_owned(),
                false => format!("; did you mean {}?", near.join(", ")),
            };
            format!("the SQL is invalid: there is no column {:?}{hint}", field.name)
        }
        other => format!("the SQL is invalid: {other}"),
    }
}

/// Whether messages are JSON, too: set once, before there are any.
static SPEAKS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on, every message is a line of JSON, as those of `piste --json`.
pub(crate) fn speak_json() {
    // Relaxed: whoever starts a thread later hands it on.
    SPEAKS_JSON.store(true, Ordering::Relaxed);
}

fn speaks_json() -> bool {
    SPEAKS_JSON.load(Ordering::Relaxed)
}

/// Tells why it failed.
pub(crate) fn tell_failure(sentence: &str, exit_status: u8) {
    match speaks_json() {
        true => tell_json(&json!({ "error": { "message": sentence, "exit_status": exit_status } })),
        false => tell(sentence),
    }
}

fn tell_json(message: &Value) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Tells a sentence. Whether anybody can read it does not change what is done.
pub(crate) fn tell(sentence: &str) {
    if speaks_json() {
        return tell_json(&json!({ "note": sentence }));
    }
    let lines: Vec<_> = sentence.lines().map(printable).collect();
    let told = format!("piste: {}\n", lines.join("\n  "));
    let told = match Size::of_stderr() {
        Some(size) => wrapped(&told, size.columns),
        None => told,
    };
    let _ = io::stderr().write_all(told.as_bytes());
}

/// Tells what was found while reading, and what the tracers lost.
pub(crate) fn tell_findings(findings: &Findings) {
    let (events, packets) = (findings.count(Kind::DiscardedEvents), findings.count(Kind::LostPackets));
    if events + packets > 0 {
        tell(&format!(
            "the tracer lost events: {events} discarded events, {packets} lost packets; the table `findings` shows where"
        ));
    }
    let is_loss = |kind: Kind| matches!(kind, Kind::DiscardedEvents | Kind::LostPackets);
    for finding in findings.iter().filter(|finding| !is_loss(finding.kind)) {
        if speaks_json() {
            tell_json(&json!({ "finding": finding }));
            continue;
        }
        let place = finding.place(|times| times.to_string());
        tell(&format!("{}: {}{place}", finding.file.display(), finding.what));
    }
}
