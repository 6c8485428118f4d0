// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `query`, which `piste-query` is told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde::Serialize;

use super::reading::ProgressOption;
use crate::quantity::parse_size;

/// Ask traces questions in SQL
///
/// Without SQL it asks for statements on a terminal, and otherwise reads them from stdin. The tables are events (every event, every field
/// a column), one for each name of events, streams and findings; SHOW TABLES and DESCRIBE events show them. SQL is that of DataFusion.
#[derive(Args)]
#[command(
    override_usage = "piste query [OPTIONS] TRACE... [SQL]",
    after_help = "\
For example: piste query trace \"SELECT name, count(*) FROM events GROUP BY name ORDER BY 2 DESC\"

Exit status: 0, 1 when no trace can be read or the query fails, or 2 when the SQL is wrong."
)]
pub(crate) struct Query {
    /// Folders with traces, at any depth; behind them, the SQL
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) arguments: Vec<OsString>,
    /// How rows are written [default: table, or json with --json]
    #[arg(long, value_enum)]
    pub(crate) format: Option<QueryFormat>,
    /// File for the rows, which replaces one of that name when they are complete
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// What sorting, grouping and joining may keep in memory before they use files
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512M")]
    pub(crate) memory_bytes: u64,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueryFormat {
    /// Columns side by side, to look at
    Table,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// Comma-separated values, with a line of names
    Csv,
    /// Arrow IPC: a stream, or a file with --output
    Arrow,
    /// Parquet
    Parquet,
}
