// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is different between two recordings, as `piste diff` says it.

use std::ffi::OsStr;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;

use crate::pages::{Asked, Refusal, as_it_is, expect_analysis};
use crate::questions::Question;
use crate::tools;

#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// An analysis; absent: the largest changes of all.
    name: Option<String>,
    /// As many changes of times, and as many of counts.
    limit: u32,
    sums: Option<Sums>,
}

/// How sums are compared; absent: the command chooses.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Sums {
    PerSecond,
    AsIs,
}

/// `GET /api/N/diff/M?name&limit&sums`: from recording N to recording M. The command ends when nobody waits for the answer.
pub(crate) async fn diff(
    State(house): Asked,
    Path((before, after)): Path<(usize, usize)>,
    Query(wanted): Query<Wanted>,
    question: Question,
) -> Result<Response, Refusal> {
    let [before, after] = [house.recording(before)?, house.recording(after)?];
    let mut operands = vec![before.path.as_os_str(), after.path.as_os_str()];
    if let Some(name) = &wanted.name {
        expect_analysis(name)?;
        operands.push(OsStr::new(name));
    }
    let limit = format!("--limit={}", wanted.limit);
    let sums = wanted.sums.map(|sums| match sums {
        Sums::PerSecond => "--per-second",
        Sums::AsIs => "--as-is",
    });
    let arguments: Vec<&str> = ["diff", &limit].into_iter().chain(sums).collect();
    as_it_is(tools::ask_about(&house.piste, &arguments, &operands, &question).await)
}
