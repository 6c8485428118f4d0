// SPDX-License-Identifier: MIT OR Apache-2.0
//! A range as a trace of its own, beside the trace that is shown, and as a file for Perfetto, which goes to the browser.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::pages::{Asked, Json, Refusal, ns};
use crate::questions::Question;
use crate::tools::{self, Tool};

/// Parts of a range with the same name.
const NAMES_MAX: u32 = 10_000;
/// Pieces of an answer that wait for the browser.
const WAITING_MAX: usize = 4;

#[derive(Deserialize)]
pub(crate) struct Range {
    begin: String,
    end: String,
}

impl Range {
    fn arguments(&self) -> Result<[String; 2], Refusal> {
        let (begin_ns, end_ns) = (ns(&self.begin)?, ns(&self.end)?);
        Ok([format!("--begin={begin_ns}"), format!("--end={end_ns}")])
    }
}

#[derive(Serialize)]
pub(crate) struct Written {
    path: String,
}

fn failed(why: String) -> Refusal {
    Refusal(StatusCode::CONFLICT, why)
}

/// `POST /api/N/trim?begin&end`: writes the range to a new folder beside the trace.
pub(crate) async fn trim(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(range): Query<Range>,
    question: Question,
) -> Result<Json<Written>, Refusal> {
    let trace = house.recording(number)?.path.clone();
    let [begin, end] = range.arguments()?;
    let to = new_folder(&trace).map_err(failed)?;
    let piste = house.piste.clone();
    let output = format!("--output={}", to.display());
    // If the page is closed meanwhile, the trace is written nevertheless: a part of it would be left otherwise.
    let written =
        tokio::spawn(async move { tools::ask(&piste, &["trim", &begin, &end, &output], &trace, &question).await });
    written
        .await
        .map_err(|error| failed(error.to_string()))?
        .map_err(failed)?;
    Ok(Json(Written {
        path: to.to_string_lossy().into_owned(),
    }))
}

/// A folder beside the trace that is not there yet. `piste trim` itself writes to no folder that has something in it.
fn new_folder(trace: &FilePath) -> Result<PathBuf, String> {
    let trace = trace.canonicalize();
    let trace = trace.map_err(|error| format!("cannot find the trace: {}", piste_reason::reason(&error)))?;
    let name = trace.file_name().and_then(|name| name.to_str());
    let name = name.ok_or("the name of the trace's folder is not valid UTF-8")?;
    let folders = (1..NAMES_MAX).map(|number| trace.with_file_name(format!("{name}-part{number}")));
    let is_free =
        |folder: &PathBuf| matches!(folder.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
    folders
        .into_iter()
        .find(is_free)
        .ok_or_else(|| format!("too many parts of this trace exist already; delete some of the folders {name}-partN"))
}

/// `GET /api/N/perfetto?begin&end`: the range in Perfetto's form, as it is made.
pub(crate) async fn perfetto(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(range): Query<Range>,
    question: Question,
) -> Result<Response, Refusal> {
    let recording = house.recording(number)?;
    let [begin, end] = range.arguments()?;
    let arguments = ["export", "--format=perfetto", "--output=-", &begin, &end];
    let mut tool =
        Tool::start_as_is(&house.piste, &arguments, &recording.path, String::new(), &question).map_err(failed)?;
    // What is wrong is known before the first byte.
    let first = tool.read().await.map_err(failed)?;
    if first.is_empty() {
        tool.finish().await.map_err(failed)?;
        return Err(failed("there are no events in this range".to_owned()));
    }
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(hand_on(tool, first, sender));
    let body = Body::from_stream(Parts(receiver));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

type Part = Result<Bytes, io::Error>;

/// Hands on what the tool prints; ends it when nobody takes it any more.
async fn hand_on(mut tool: Tool, mut part: Vec<u8>, sender: Sender<Part>) {
    while !part.is_empty() {
        if sender.send(Ok(part.into())).await.is_err() {
            return;
        }
        part = match tool.read().await {
            Ok(part) => part,
            Err(why) => return drop(sender.send(Err(io::Error::other(why))).await),
        };
    }
    // An answer that is not whole must not look like one.
    if let Err(why) = tool.finish().await {
        let _ = sender.send(Err(io::Error::other(why))).await;
    }
}

struct Parts(Receiver<Part>);

impl Stream for Parts {
    type Item = Part;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Part>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_part_gets_a_folder_that_is_not_there() {
        let place = tempfile::tempdir().expect("a folder");
        let trace = place.path().join("trace");
        fs::create_dir(&trace).expect("a folder");
        let name = || {
            let folder = new_folder(&trace).expect("a name");
            folder.file_name().map(|name| name.to_string_lossy().into_owned())
        };
        assert_eq!(name().as_deref(), Some("trace-part1"));
        fs::create_dir(place.path().join("trace-part1")).expect("a folder");
        // Also a link that leads nowhere is something.
        std::os::unix::fs::symlink("nowhere", place.path().join("trace-part2")).expect("a link");
        assert_eq!(name().as_deref(), Some("trace-part3"));
    }
}
