// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every address of the server, behind the token:
//!
//! ```text
//!   GET  /                         the viewer
//!   GET  /api/recordings           which there are, and how far their timelines are
//!   POST /api/N/open               somebody looks at recording N: its timeline is made
//!   GET  /api/N/lanes              its lanes
//!   POST /api/N/view               what some lanes show in a range (reply.rs)
//!   POST /api/N/sums               how long some lanes were what in a range
//!   GET  /api/N/piece?lane&at      the piece of a lane at a time, and its neighbours
//!   GET  /api/N/alike?lane&at&among   how long the pieces took that have the same name (alike.rs)
//!   GET  /api/N/wakes?lane&at      the next wait that a thread ended (wakes.rs)
//!   GET  /api/N/spans?begin&end    how long the spans of programs took, by name (spans.rs)
//!   GET  /api/N/insights           what stands out
//!   GET  /api/N/analysis/NAME      an analysis, of a range: ?begin&end&limit&tid
//!   GET  /api/N/diff/M             what is different in recording M: ?name&limit (compare.rs)
//!   POST /api/N/longest            the longest piece of some lanes (longest.rs)
//!   GET  /api/N/events?begin&end   a page of events (events.rs)
//!   POST /api/N/query?limit        the rows of a query (queries.rs)
//!   GET  /api/N/search?text        pieces by their names (search.rs)
//!   GET  /api/N/notes              the notes of people (notes.rs)
//!   POST /api/N/notes              replaces them
//!   POST /api/N/trim               writes a range as a new trace (exports.rs)
//!   GET  /api/N/perfetto           a range, as a file for Perfetto
//!   GET  /api/progress/N/...       how far one of these answers is (questions.rs)
//! ```
//!
//! Times are nanoseconds since 1970 as text.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use piste_timeline::{Class, Counter, Created, Failure, LaneId, Piece, ProgramThread, Subject, Summary};
use serde::{Deserialize, Serialize};

use crate::assets::asset;
use crate::guard::{Guard, guard};
use crate::questions::{Question, Questions};
use crate::recordings::{Name, Recording, Recordings, Status, View};
use crate::{
    alike, classes, compare, events, exports, longest, notes, queries, questions, reply, search, spans, tools, wakes,
};

/// A list of more lanes is of no use to a person: the busiest are listed.
const LANES_LISTED_MAX: usize = 20_000;
/// Looking for a neighbour ends here: 36 years away.
const NEIGHBOUR_NS_MAX: i64 = 1 << 60;
/// Pieces that lie one over the other at a time, as requests to a device do.
const PIECES_AT_ONCE_MAX: usize = 10_000;

/// What answers need.
#[derive(Debug)]
pub(crate) struct House {
    recordings: Arc<Recordings>,
    pub(crate) piste: PathBuf,
    pub(crate) questions: Questions,
}

pub(crate) type Asked = State<Arc<House>>;

pub(crate) fn router(guarding: Arc<Guard>, recordings: Arc<Recordings>, piste: PathBuf) -> Router {
    let token = guarding.token();
    let at = |path: &str| format!("/{token}/{path}");
    Router::new()
        .route(&at(""), get(|| async { file("index.html") }))
        .route(
            &at("{name}"),
            get(|Path(name): Path<String>| async move { file(&name) }),
        )
        .route(&at("api/recordings"), get(list))
        .route(&at("api/{recording}/open"), post(open))
        .route(&at("api/{recording}/lanes"), get(lanes))
        .route(&at("api/{recording}/view"), post(view))
        .route(&at("api/{recording}/sums"), post(sums))
        .route(&at("api/{recording}/piece"), get(piece))
        .route(&at("api/{recording}/alike"), get(alike::alike))
        .route(&at("api/{recording}/wakes"), get(wakes::wakes))
        .route(&at("api/{recording}/spans"), get(spans::spans))
        .route(&at("api/{recording}/insights"), get(insights))
        .route(&at("api/{recording}/analysis/{name}"), get(analysis))
        .route(&at("api/{recording}/diff/{other}"), get(compare::diff))
        .route(&at("api/{recording}/longest"), post(longest::longest))
        .route(&at("api/{recording}/events"), get(events::events))
        .route(&at("api/{recording}/classes"), get(classes::classes))
        .route(&at("api/{recording}/query"), post(queries::query))
        .route(&at("api/{recording}/search"), get(search::search))
        .route(&at("api/{recording}/notes"), get(notes::read).post(notes::replace))
        .route(&at("api/{recording}/trim"), post(exports::trim))
        .route(&at("api/{recording}/perfetto"), get(exports::perfetto))
        .route(&at("api/progress/{*path}"), get(questions::progress))
        .with_state(Arc::new(House {
            recordings,
            piste,
            questions: Questions::default(),
        }))
        .layer(middleware::from_fn_with_state(guarding.clone(), guard))
}

/// An answer as JSON. Axum's own would add features to crates that all of Piste uses, which would then be built twice.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => ([(CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal(status, message) = self;
        (status, Json(serde_json::json!({ "error": { "message": message } }))).into_response()
    }
}

fn not_found(what: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, format!("there is no {what}"))
}

fn file(name: &str) -> Response {
    match asset(name) {
        Some(asset) => ([(CONTENT_TYPE, HeaderValue::from_static(asset.kind))], asset.bytes).into_response(),
        None => not_found("such page").into_response(),
    }
}

async fn list(State(house): Asked) -> Json<Vec<Status>> {
    Json(
        house
            .recordings
            .all()
            .iter()
            .map(|recording| recording.status())
            .collect(),
    )
}

async fn open(State(house): Asked, Path(number): Path<usize>) -> Result<StatusCode, Refusal> {
    house.recording(number)?;
    house.recordings.want(number);
    Ok(StatusCode::NO_CONTENT)
}

impl House {
    pub(crate) fn recording(&self, number: usize) -> Result<&Recording, Refusal> {
        self.recordings
            .all()
            .get(number)
            .ok_or_else(|| not_found("such recording"))
    }

    fn view(&self, number: usize) -> Result<View, Refusal> {
        let recording = self.recording(number)?;
        recording.view().ok_or_else(|| {
            let problem = recording.status().problem;
            let why = problem.unwrap_or_else(|| "the timeline of this recording is not ready yet".to_owned());
            Refusal(StatusCode::CONFLICT, why)
        })
    }

    /// Asks the timeline of a recording, so that other answers need not wait for it. A damaged one is made again.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<House>,
        number: usize,
        what: impl FnOnce(&View) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Refusal> {
        let view = self.view(number)?;
        let asked = view.clone();
        let done = tokio::task::spawn_blocking(move || what(&asked)).await;
        let failed = |message: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, message);
        match done.map_err(|error| failed(error.to_string()))? {
            Ok(answer) => Ok(answer),
            Err(Failure::Damaged(_)) => {
                self.recordings.make_again(number, &view);
                let why = "the timeline of this recording is damaged and is being rebuilt".to_owned();
                Err(Refusal(StatusCode::CONFLICT, why))
            }
            Err(failure) => Err(failed(failure.to_string())),
        }
    }
}

/// The lanes, as far as they are listed.
#[derive(Serialize)]
struct Listed {
    lanes: Vec<Lane>,
    /// Lanes that did less than those.
    left_out: usize,
    /// The kernel was recorded, not only programs. Its lanes may come later.
    has_kernel: bool,
}

#[derive(Serialize)]
struct Lane {
    id: u32,
    #[serde(flatten)]
    shown: Shown,
    pieces: u64,
    /// How long there was something other than nothing to do.
    busy_ns: String,
    /// When there is something first.
    first_ns: Option<String>,
    /// It is a thread, and what it did is never known.
    is_unknown: bool,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shown {
    Cpu {
        cpu: u32,
    },
    Thread {
        tid: i32,
        pid: Option<i32>,
        name: String,
        is_kernel: bool,
        process: u32,
        uid: Option<u32>,
        #[serde(skip_serializing_if = "String::is_empty")]
        cgroup: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_pid: Option<i32>,
        /// The lane of the thread that created it, and when.
        #[serde(skip_serializing_if = "Option::is_none")]
        created_by: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        created_ns: Option<String>,
    },
    Calls {
        of: u32,
    },
    Interrupt {
        name: String,
    },
    Device {
        name: String,
    },
    Spans {
        tid: Option<i64>,
        pid: Option<i64>,
        name: String,
        depth: u32,
    },
    Events {
        tid: Option<i64>,
        pid: Option<i64>,
        name: String,
    },
    Counter {
        quantity: &'static str,
        /// Whose: a CPU,
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu: Option<u32>,
        /// a network interface,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// or the device that has this lane.
        #[serde(skip_serializing_if = "Option::is_none")]
        of: Option<u32>,
    },
}

impl From<Counter> for Shown {
    fn from(counter: Counter) -> Shown {
        let (quantity, cpu, name, of) = match counter {
            Counter::Frequency(cpu) => ("frequency", Some(cpu), None, None),
            Counter::Received(name) => ("received", None, Some(name), None),
            Counter::Queued(name) => ("queued", None, Some(name), None),
            Counter::Sent(name) => ("sent", None, Some(name), None),
            Counter::Read(LaneId(of)) => ("read", None, None, Some(of)),
            Counter::Written(LaneId(of)) => ("written", None, None, Some(of)),
        };
        Shown::Counter {
            quantity,
            cpu,
            name,
            of,
        }
    }
}

impl From<Subject> for Shown {
    fn from(subject: Subject) -> Shown {
        match subject {
            Subject::Cpu(cpu) => Shown::Cpu { cpu },
            Subject::Thread(thread) => Shown::Thread {
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name,
                is_kernel: thread.is_kernel,
                process: thread.process,
                uid: thread.uid,
                cgroup: thread.cgroup,
                parent_pid: thread.parent_pid,
                created_by: thread.created.map(|Created { by: LaneId(by), .. }| by),
                created_ns: thread.created.map(|created| created.ns.to_string()),
            },
            Subject::Calls(LaneId(of)) => Shown::Calls { of },
            Subject::Interrupt(name) => Shown::Interrupt { name },
            Subject::Device(name) => Shown::Device { name },
            Subject::Spans(ProgramThread { tid, pid, name }, depth) => Shown::Spans { tid, pid, name, depth },
            Subject::Events(ProgramThread { tid, pid, name }) => Shown::Events { tid, pid, name },
            Subject::Counter(counter) => counter.into(),
        }
    }
}

async fn lanes(State(house): Asked, Path(number): Path<usize>) -> Result<Json<Listed>, Refusal> {
    house.ask(number, list_lanes).await.map(Json)
}

fn list_lanes(view: &View) -> Result<Listed, Failure> {
    let busy_ns = |whole: &Summary| {
        let busy = [
            Class::Running,
            Class::User,
            Class::Kernel,
            Class::Interrupted,
            Class::Other,
        ];
        busy.iter()
            .fold(0_u64, |sum, class| whole.of(*class).saturating_add(sum))
    };
    // Looked at twice: only lanes that are listed are copied.
    let mut ranks: Vec<u64> = Vec::new();
    view.each_lane(&mut |_, subject, whole| {
        ranks.push(match subject {
            // There are few of them.
            Subject::Counter(_) | Subject::Cpu(_) | Subject::Interrupt(_) | Subject::Device(_) => u64::MAX,
            // With their thread, which comes before them.
            Subject::Calls(LaneId(of)) => ranks.get(*of as usize).copied().unwrap_or(0),
            _ => busy_ns(whole),
        });
    })?;
    let left_out = ranks.len().saturating_sub(LANES_LISTED_MAX);
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by_key(|lane| Reverse(ranks[*lane]));
    let mut is_listed = vec![false; ranks.len()];
    order
        .iter()
        .take(LANES_LISTED_MAX)
        .for_each(|lane| is_listed[*lane] = true);
    let mut lanes = Vec::new();
    view.each_lane(&mut |LaneId(id), subject, whole| {
        // One that has come meanwhile is listed the next time.
        if !is_listed.get(id as usize).is_some_and(|is_listed| *is_listed) {
            return;
        }
        let is_known = |class: &Class| *class != Class::Unknown && whole.of(*class) > 0;
        let is_unknown = matches!(subject, Subject::Thread(_)) && !Class::ALL.iter().any(is_known);
        lanes.push(Lane {
            id,
            shown: subject.clone().into(),
            pieces: whole.count,
            busy_ns: busy_ns(whole).to_string(),
            first_ns: whole.span_ns.map(|(begin_ns, _)| begin_ns.to_string()),
            is_unknown,
        });
    })?;
    Ok(Listed {
        lanes,
        left_out,
        has_kernel: view.has_kernel(),
    })
}

/// What is asked of some lanes.
#[derive(Deserialize)]
struct Wanted {
    begin_ns: String,
    end_ns: String,
    columns: usize,
    lanes: Vec<u32>,
}

pub(crate) fn ns(text: &str) -> Result<i64, Refusal> {
    let wrong = || {
        Refusal(
            StatusCode::BAD_REQUEST,
            "a time must be a whole number of nanoseconds".to_owned(),
        )
    };
    text.parse().map_err(|_| wrong())
}

async fn view(State(house): Asked, Path(number): Path<usize>, body: Bytes) -> Result<Response, Refusal> {
    let wanted: Wanted =
        serde_json::from_slice(&body).map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    let range_ns = (ns(&wanted.begin_ns)?, ns(&wanted.end_ns)?);
    let cells = wanted.columns.saturating_mul(wanted.lanes.len());
    if wanted.columns == 0 || cells > reply::CELLS_MAX {
        return Err(Refusal(StatusCode::BAD_REQUEST, "too many columns or lanes".to_owned()));
    }
    let lanes: Vec<LaneId> = wanted.lanes.iter().copied().map(LaneId).collect();
    let bytes = house
        .ask(number, move |view| reply::lanes(view, &lanes, range_ns, wanted.columns))
        .await?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// What is asked of some lanes together.
#[derive(Deserialize)]
struct Summed {
    begin_ns: String,
    end_ns: String,
    lanes: Vec<u32>,
}

/// What a lane was in a range.
#[derive(Serialize)]
struct Sum {
    lane: u32,
    /// Pieces that begin in it.
    pieces: u64,
    /// By class: for how long.
    ns: BTreeMap<String, u64>,
    /// Of a lane of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Numbers>,
}

/// As text: browsers have no such numbers.
#[derive(Serialize)]
struct Numbers {
    /// How many amounts there are.
    amounts: u64,
    least: String,
    most: String,
    /// The sum of amounts; or of levels, each times the nanoseconds for which it lasted.
    total: String,
}

async fn sums(State(house): Asked, Path(number): Path<usize>, body: Bytes) -> Result<Json<Vec<Sum>>, Refusal> {
    let asked: Summed =
        serde_json::from_slice(&body).map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    let range_ns = (ns(&asked.begin_ns)?, ns(&asked.end_ns)?);
    if asked.lanes.len() > LANES_LISTED_MAX {
        return Err(Refusal(StatusCode::BAD_REQUEST, "too many lanes".to_owned()));
    }
    let sum = move |view: &View| {
        let of_lane = |lane: u32| {
            let whole = view.columns(LaneId(lane), range_ns, 1)?.pop().unwrap_or_default();
            let known = Class::ALL.into_iter().filter(|class| whole.of(*class) > 0);
            Ok(Sum {
                lane,
                pieces: whole.count,
                ns: known.map(|class| (class_name(class), whole.of(class))).collect(),
                values: whole.values.map(|values| Numbers {
                    amounts: values.amounts,
                    least: values.least.to_string(),
                    most: values.most.to_string(),
                    total: values.total.to_string(),
                }),
            })
        };
        asked.lanes.iter().copied().map(of_lane).collect()
    };
    house.ask(number, sum).await.map(Json)
}

/// `user`, `blocked`, ...
pub(crate) fn class_name(class: Class) -> String {
    format!("{class:?}").to_lowercase()
}

#[derive(Deserialize)]
pub(crate) struct Place {
    pub(crate) lane: u32,
    pub(crate) at: String,
}

/// A piece with its names.
#[derive(Serialize)]
pub(crate) struct Named {
    begin_ns: String,
    end_ns: String,
    class: String,
    what: Option<Name>,
    by: Option<Name>,
    /// Of a lane of numbers, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Serialize)]
struct Found {
    piece: Option<Named>,
    previous: Option<Named>,
    next: Option<Named>,
}

async fn piece(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(place): Query<Place>,
) -> Result<Json<Found>, Refusal> {
    let (lane, at_ns) = (LaneId(place.lane), ns(&place.at)?);
    let find = move |view: &View| {
        let here = piece_at(view, lane, at_ns)?;
        let (begin_ns, end_ns) = here.map_or((at_ns, at_ns), |piece| (piece.begin_ns, piece.end_ns));
        let before = |ns: i64| (begin_ns.saturating_sub(ns), begin_ns);
        let previous = neighbour(view, lane, before, |pieces| {
            pieces
                .into_iter()
                .rfind(|piece| piece.end_ns <= begin_ns && here != Some(*piece))
        })?;
        let after = |ns: i64| (end_ns, end_ns.saturating_add(ns));
        let next = neighbour(view, lane, after, |pieces| {
            pieces
                .into_iter()
                .find(|piece| piece.begin_ns >= end_ns && here != Some(*piece))
        })?;
        Ok(Found {
            piece: named(view, here)?,
            previous: named(view, previous)?,
            next: named(view, next)?,
        })
    };
    house.ask(number, find).await.map(Json)
}

/// Of several that lie one over the other, the last that begins.
pub(crate) fn piece_at(view: &View, lane: LaneId, at_ns: i64) -> Result<Option<Piece>, Failure> {
    let at = view.pieces(lane, (at_ns, at_ns.saturating_add(1)), PIECES_AT_ONCE_MAX)?;
    Ok(at.and_then(|pieces| pieces.last().copied()))
}

/// Looks in ranges that become longer, and in shorter ones where there are too many.
fn neighbour(
    view: &View,
    lane: LaneId,
    range_ns: impl Fn(i64) -> (i64, i64),
    choose: impl Fn(Vec<Piece>) -> Option<Piece>,
) -> Result<Option<Piece>, Failure> {
    // It is not within the one, and too many are within the other.
    let (mut least_ns, mut most_ns) = (0, None);
    for _ in 0..2 * i64::BITS {
        let middle_ns = match most_ns {
            None if least_ns >= NEIGHBOUR_NS_MAX => break,
            None => (least_ns * 16).max(1024),
            Some(most_ns) if most_ns - least_ns <= 1 => break,
            Some(most_ns) => least_ns + (most_ns - least_ns) / 2,
        };
        match view.pieces(lane, range_ns(middle_ns), PIECES_AT_ONCE_MAX)?.map(&choose) {
            None => most_ns = Some(middle_ns),
            Some(None) => least_ns = middle_ns,
            Some(found) => return Ok(found),
        }
    }
    Ok(None)
}

pub(crate) fn named(view: &View, piece: Option<Piece>) -> Result<Option<Named>, Failure> {
    let Some(piece) = piece else { return Ok(None) };
    let name = |number: u32| Ok::<_, Failure>(view.names(std::iter::once(number))?.pop().map(|(_, name)| name));
    Ok(Some(Named {
        begin_ns: piece.begin_ns.to_string(),
        end_ns: piece.end_ns.to_string(),
        class: class_name(piece.class),
        what: name(piece.what)?,
        by: name(piece.by)?,
        value: (piece.class == Class::Value).then(|| piece.value.to_string()),
    }))
}

async fn tool(house: &House, number: usize, arguments: &[&str], question: &Question) -> Result<Response, Refusal> {
    let recording = house.recording(number)?;
    as_it_is(tools::ask(&house.piste, arguments, &recording.path, question).await)
}

/// Hands on the JSON of a command.
pub(crate) fn as_it_is(answer: Result<Vec<u8>, String>) -> Result<Response, Refusal> {
    let answer = answer.map_err(|why| Refusal(StatusCode::CONFLICT, why))?;
    Ok(([(CONTENT_TYPE, "application/json")], answer).into_response())
}

async fn insights(State(house): Asked, Path(number): Path<usize>, question: Question) -> Result<Response, Refusal> {
    tool(&house, number, &["insights"], &question).await
}

#[derive(Deserialize)]
struct Range {
    begin: Option<String>,
    end: Option<String>,
    /// Rows of each table.
    limit: Option<u32>,
    /// Of this thread alone.
    tid: Option<u32>,
}

/// Whether a name can be that of an analysis: the command knows which there are.
pub(crate) fn expect_analysis(name: &str) -> Result<(), Refusal> {
    match name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !name.starts_with('-') {
        true => Ok(()),
        false => Err(not_found("such analysis")),
    }
}

async fn analysis(
    State(house): Asked,
    Path((number, name)): Path<(usize, String)>,
    Query(range): Query<Range>,
    question: Question,
) -> Result<Response, Refusal> {
    expect_analysis(&name)?;
    let mut arguments = vec!["analyze", &name];
    for (option, value) in [("--begin", &range.begin), ("--end", &range.end)] {
        if let Some(text) = value {
            ns(text)?;
            arguments.extend([option, text]);
        }
    }
    let numbers = [("--limit", range.limit), ("--tid", range.tid)];
    let numbers = numbers.map(|(option, number)| (option, number.map(|number| number.to_string())));
    for (option, number) in &numbers {
        arguments.extend(number.iter().flat_map(|number| [*option, number]));
    }
    tool(&house, number, &arguments, &question).await
}
