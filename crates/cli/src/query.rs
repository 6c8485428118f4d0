// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste query` and `piste export --format parquet`: done by another program, `piste-query`, which this one becomes. It is beside this one,
//! and one of its own because of the size of what it is made of; crates/query/src/request.rs has the other side.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use piste_reason::reason;
use piste_trace::select::Selection;
use serde::Serialize;

use crate::arguments::{Export, Query, QueryFormat};
use crate::failure::{Failure, USAGE};

/// The program's name.
const PROGRAM: &str = "piste-query";
/// It is a package of its own, and not in the wheel.
const NOT_INSTALLED: &str = "cannot run piste-query: it is neither beside piste nor in PATH; install the package piste-query, or build it: \
    `cargo install --profile query --path crates/query` in Piste's source folder, which takes some minutes";

#[derive(Serialize)]
struct Request {
    version: &'static str,
    task: Task,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    Query {
        statements: Option<String>,
        format: QueryFormat,
        memory_bytes: u64,
        threads: usize,
        progress: bool,
        wide: bool,
        pager: bool,
        symbols: bool,
        debuginfod: bool,
        json: bool,
    },
    Parquet {
        begin_ns: i64,
        end_ns: i64,
        events: Vec<String>,
        filter: Option<String>,
        pids: Vec<i64>,
        tids: Vec<i64>,
        comms: Vec<String>,
        cpus: Vec<u64>,
        symbols: bool,
        debuginfod: bool,
        json: bool,
        progress: bool,
    },
}

/// `piste query`; returns only when it failed.
pub(crate) fn query(arguments: &Query, json: bool) -> Result<(), Failure> {
    let (paths, statements) = split(&arguments.arguments)?;
    let format = match (arguments.format, json) {
        (Some(format), _) => format,
        (None, true) => QueryFormat::Json,
        (None, false) => QueryFormat::Table,
    };
    let task = Task::Query {
        statements,
        format,
        memory_bytes: arguments.memory_bytes,
        threads: available_parallelism().map_or(1, usize::from),
        progress: arguments.progress.wanted,
        wide: arguments.page.wide,
        pager: !arguments.page.pager.no_pager,
        symbols: arguments.symbols.symbols,
        debuginfod: arguments.symbols.debuginfod,
        json,
    };
    become_program(task, arguments.output.as_deref(), &paths)
}

/// `piste export --format parquet`; returns only when it failed.
pub(crate) fn export_parquet(arguments: &Export, selection: &Selection, json: bool) -> Result<(), Failure> {
    let task = Task::Parquet {
        begin_ns: selection.span.begin_ns,
        end_ns: selection.span.end_ns,
        events: selection.events.clone(),
        filter: selection.filter.as_ref().map(ToString::to_string),
        pids: selection.pids.clone(),
        tids: selection.tids.clone(),
        comms: selection.comms.clone(),
        cpus: selection.cpus.clone(),
        symbols: arguments.symbols.symbols,
        debuginfod: arguments.symbols.debuginfod,
        json,
        progress: arguments.progress.wanted,
    };
    become_program(task, Some(&arguments.output), &arguments.paths)
}

/// Folders, and SQL behind them: no statement is one word, and no folder is named like one.
fn split(arguments: &[OsString]) -> Result<(Vec<PathBuf>, Option<String>), Failure> {
    let paths = |arguments: &[OsString]| arguments.iter().map(PathBuf::from).collect();
    let is_sql =
        |text: &OsStr| text.to_string_lossy().trim().contains(char::is_whitespace) && !Path::new(text).exists();
    if arguments.iter().any(|argument| argument.is_empty()) {
        let what = "an argument is empty; write for example piste query TRACE \"SELECT name FROM events\"";
        return Err(Failure::with_status(what, USAGE));
    }
    match arguments.split_last() {
        Some((last, [])) if is_sql(last) => Err(Failure::with_status(
            format!("no trace is given before the SQL; write piste query TRACE {last:?}"),
            USAGE,
        )),
        Some((last, before)) if is_sql(last) => {
            let sql = last
                .to_str()
                .ok_or_else(|| Failure::with_status("the SQL is not valid UTF-8", USAGE))?;
            Ok((paths(before), Some(sql.to_owned())))
        }
        _ => Ok((paths(arguments), None)),
    }
}

fn become_program(task: Task, output: Option<&Path>, paths: &[PathBuf]) -> Result<(), Failure> {
    let request = Request {
        version: env!("CARGO_PKG_VERSION"),
        task,
    };
    let request = serde_json::to_string(&request).map_err(io::Error::from)?;
    let program = program()?;
    let error = Command::new(&program)
        .arg(request)
        .arg(output.unwrap_or(Path::new("")))
        .args(paths)
        .exec();
    Err(Failure::new(match error.kind() {
        io::ErrorKind::NotFound => NOT_INSTALLED.into(),
        _ => format!("cannot run {}: {}", program.display(), reason(&error)),
    }))
}

/// Beside this one, wherever it was started from; else from PATH.
fn program() -> Result<PathBuf, Failure> {
    let own = env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the folder of piste: {}", reason(&error))))?;
    let beside = own.with_file_name(PROGRAM);
    Ok(if beside.is_file() { beside } else { PROGRAM.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(arguments: &[&str]) -> Option<(usize, Option<String>)> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        split(&arguments).ok().map(|(paths, sql)| (paths.len(), sql))
    }

    #[test]
    fn what_has_words_and_is_no_folder_is_sql() {
        assert_eq!(parts(&["a", "select 1"]), Some((1, Some("select 1".into()))));
        assert_eq!(parts(&["a", "b", "SHOW TABLES"]), Some((2, Some("SHOW TABLES".into()))));
        assert_eq!(parts(&["a"]), Some((1, None)));
        assert_eq!(parts(&["a", "missing"]), Some((2, None)));
        assert_eq!(parts(&["select 1"]), None);
        assert_eq!(parts(&["a", ""]), None);
        let folder = tempfile::tempdir().unwrap();
        let spaced = folder.path().join("my trace");
        std::fs::create_dir(&spaced).unwrap();
        assert_eq!(parts(&["a", spaced.to_str().unwrap()]), Some((2, None)));
    }
}
