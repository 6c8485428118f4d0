// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `query`, which `piste-query` is told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde::Serialize;

use super::reading::{PageOptions, ProgressOption};
use super::symbols::SymbolOptions;
use crate::quantity::parse_size;

/// Query traces with SQL
///
/// Without SQL, prompts for statements on a terminal, and otherwise reads them from stdin. The tables are `events` (a row for every event, a
/// column for every field), one table for each event name, `streams` and `findings`; SHOW TABLES lists them, and DESCRIBE events lists the
/// columns. The SQL dialect is that of DataFusion.
#[derive(Args)]
#[command(
    override_usage = "piste query [OPTIONS] TRACE... [SQL]",
    after_help = "\
Example: piste query trace \"SELECT name, count(*) FROM events GROUP BY name ORDER BY 2 DESC\"

Exit status: 0; 1 if no trace can be read or the query fails; 2 if the SQL is wrong."
)]
pub(crate) struct Query {
    /// Folders to search for traces, including subfolders, or trace.dat files, followed by the SQL
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) arguments: Vec<OsString>,
    /// Write rows in this format [default: table, or json with --json]
    #[arg(long, value_enum)]
    pub(crate) format: Option<QueryFormat>,
    /// Write the rows to FILE; an existing file is replaced once they are complete
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Limit the memory of a query; sorts that need more use temporary files, and joins that need more fail
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512M")]
    pub(crate) memory_bytes: u64,
    #[command(flatten)]
    pub(crate) symbols: SymbolOptions,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueryFormat {
    /// Aligned columns, for reading
    Table,
    /// One JSON array of objects
    Json,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header line
    Csv,
    /// Arrow IPC: a stream, or with --output a file
    Arrow,
    /// Parquet
    Parquet,
}
