// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste` asks this program to do. The first argument is a [`Request`] as JSON, the second the file or folder to write (empty: none),
//! all others are folders with traces: paths need not be UTF-8. crates/cli/src/query.rs has the other side.

use std::ffi::OsString;
use std::path::PathBuf;

use piste_modelling::Network;
use serde::Deserialize;

/// The whole command line.
pub(crate) struct Arguments {
    pub(crate) request: Request,
    /// File or folder to write.
    pub(crate) output: Option<PathBuf>,
    /// Folders with traces.
    pub(crate) paths: Vec<PathBuf>,
}

/// What to do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Of `piste`: both are always of one build.
    pub(crate) version: String,
    pub(crate) task: Task,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    Query(Query),
    Parquet(Parquet),
}

/// `piste query`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// SQL; absent: statements come from stdin.
    pub(crate) statements: Option<String>,
    pub(crate) format: Format,
    /// What sorting, grouping and joining may keep in memory.
    pub(crate) memory_bytes: usize,
    pub(crate) threads: usize,
    /// A terminal shows how far it is.
    pub(crate) progress: bool,
    /// Rows are as long as they are, also on a terminal.
    pub(crate) wide: bool,
    /// A pager shows what is longer than the screen.
    pub(crate) pager: bool,
    /// Addresses have a second column with names.
    pub(crate) symbols: bool,
    /// Names may come from the network.
    pub(crate) debuginfod: bool,
    /// Messages are JSON.
    pub(crate) json: bool,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    Table,
    Json,
    Ndjson,
    Csv,
    Arrow,
    Parquet,
}

/// `piste export --format parquet`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parquet {
    /// The part of time, in nanoseconds from the clocks' origin.
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    /// Patterns of names.
    pub(crate) events: Vec<String>,
    pub(crate) filter: Option<String>,
    pub(crate) pids: Vec<i64>,
    pub(crate) tids: Vec<i64>,
    /// Patterns of threads' names.
    pub(crate) comms: Vec<String>,
    pub(crate) cpus: Vec<u64>,
    /// Addresses have a second column with names.
    pub(crate) symbols: bool,
    /// Names may come from the network.
    pub(crate) debuginfod: bool,
    /// Messages are JSON, and so is what was written.
    pub(crate) json: bool,
    /// A terminal shows how far it is.
    pub(crate) progress: bool,
}

impl Task {
    /// Messages are JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            Task::Query(query) => query.json,
            Task::Parquet(parquet) => parquet.json,
        }
    }

    /// Whether addresses have names, and where these may come from.
    pub(crate) fn symbols(&self) -> Option<Network> {
        let (symbols, debuginfod) = match self {
            Task::Query(query) => (query.symbols, query.debuginfod),
            Task::Parquet(parquet) => (parquet.symbols, parquet.debuginfod),
        };
        let network = if debuginfod { Network::Debuginfod } else { Network::No };
        symbols.then_some(network)
    }

    /// A terminal shows how far it is.
    pub(crate) fn progress(&self) -> bool {
        match self {
            Task::Query(query) => query.progress,
            Task::Parquet(parquet) => parquet.progress,
        }
    }
}

impl Arguments {
    /// From the program's own, without its name.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
        let request = arguments
            .next()
            .ok_or("run it with `piste query` or `piste export --format parquet`")?;
        let request = request.to_str().ok_or("its request is not valid UTF-8")?;
        let request: Request =
            serde_json::from_str(request).map_err(|error| format!("its request is not of this version: {error}"))?;
        if request.version != env!("CARGO_PKG_VERSION") {
            let (ours, theirs) = (env!("CARGO_PKG_VERSION"), request.version);
            return Err(format!(
                "it has version {ours}, but piste has version {theirs}; install the same version of both"
            ));
        }
        let output = arguments.next().filter(|output| !output.is_empty()).map(PathBuf::from);
        let paths = arguments.map(PathBuf::from).collect();
        Ok(Arguments { request, output, paths })
    }
}
