// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of events, as `piste view` prints them.
//!
//! A page ends where the time changes, so the next one can begin at a time and no event is left out or shown twice.

use std::collections::VecDeque;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::pages::{Asked, House, Refusal, ns};
use crate::questions::Question;
use crate::tools::Tool;

const EVENTS_MAX: usize = 1000;
const PAGE_BYTES_MAX: usize = 16 << 20;
/// The search for the last events of a range starts with a part of this length, and makes it longer by this factor.
const PART_NS: i64 = 1_000_000;
const LONGER: i64 = 8;

#[derive(Deserialize)]
pub(crate) struct Wanted {
    begin: String,
    end: String,
    filter: Option<String>,
    limit: usize,
    /// Return the last events of the range instead of the first.
    #[serde(default)]
    last: bool,
}

/// `GET /api/N/events?begin&end&filter&limit&last`: `{"events": [...], "next": "TIME" or null, "left_out": false, "notes": [...]}`
pub(crate) async fn events(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(wanted): Query<Wanted>,
    question: Question,
) -> Result<Response, Refusal> {
    let range_ns = (ns(&wanted.begin)?, ns(&wanted.end)?);
    let limit = wanted.limit.clamp(1, EVENTS_MAX);
    let filter = wanted.filter.as_deref().filter(|filter| !filter.trim().is_empty());
    let asking = Asking {
        house: &house,
        number,
        filter,
        question: &question,
    };
    let page = match wanted.last {
        true => asking.last(range_ns, limit).await?,
        false => asking.first(range_ns, limit).await?,
    };
    let lines: Vec<&str> = page.events.iter().map(|event| event.line.as_str()).collect();
    let mut bytes = b"{\"events\":[".to_vec();
    bytes.extend(lines.join(",").into_bytes());
    let rest = json!({
        "next": page.next_ns.map(|ns| ns.to_string()), "left_out": page.is_left_out, "notes": page.notes
    });
    bytes.extend(b"],");
    bytes.extend(rest.to_string().bytes().skip(1));
    Ok(([(CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// An event, as a line of JSON.
#[derive(Clone, Debug)]
struct Event {
    time_ns: i64,
    line: String,
}

#[derive(Debug, Default)]
struct Page {
    events: Vec<Event>,
    /// Where the next page begins.
    next_ns: Option<i64>,
    /// More events have the same time than a page can hold, and the next page does not show the rest.
    is_left_out: bool,
    notes: Vec<String>,
}

struct Asking<'a> {
    house: &'a House,
    number: usize,
    filter: Option<&'a str>,
    question: &'a Question,
}

impl Asking<'_> {
    /// `piste view` of a range, and of it the first `count` events.
    fn view(&self, (begin_ns, end_ns): (i64, i64), count: Option<usize>) -> Result<Tool, Refusal> {
        let recording = self.house.recording(self.number)?;
        let mut arguments = vec![
            "view".to_owned(),
            format!("--begin={begin_ns}"),
            format!("--end={end_ns}"),
        ];
        arguments.extend(self.filter.map(|filter| format!("--filter={filter}")));
        arguments.extend(count.map(|count| format!("--count={count}")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Tool::start(
            &self.house.piste,
            &arguments,
            &recording.path,
            String::new(),
            self.question,
        )
        .map_err(failed)
    }

    /// The first events of a range.
    async fn first(&self, range_ns: (i64, i64), limit: usize) -> Result<Page, Refusal> {
        let mut tool = self.view(range_ns, Some(limit + 1))?;
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut is_cut = false;
        while let Some(event) = next(&mut tool).await? {
            bytes += event.line.len();
            events.push(event);
            if bytes > PAGE_BYTES_MAX && events.len() > 1 {
                is_cut = true;
                break;
            }
        }
        let notes = match is_cut {
            true => Vec::new(),
            false => tool.finish().await.map_err(failed)?,
        };
        is_cut |= events.len() > limit;
        Ok(page(events, is_cut, notes))
    }

    /// The last events of a range. Traces are read forwards, so this reads the last part of the range, then longer parts until there are enough.
    async fn last(&self, (begin_ns, end_ns): (i64, i64), limit: usize) -> Result<Page, Refusal> {
        let mut part_ns = PART_NS;
        loop {
            let from_ns = end_ns.saturating_sub(part_ns).max(begin_ns);
            let mut tool = self.view((from_ns, end_ns), None)?;
            let mut events = VecDeque::new();
            let mut bytes = 0;
            while let Some(event) = next(&mut tool).await? {
                bytes += event.line.len();
                events.push_back(event);
                while events.len() > limit || (bytes > PAGE_BYTES_MAX && events.len() > 1) {
                    bytes -= events.pop_front().map_or(0, |event: Event| event.line.len());
                }
            }
            let notes = tool.finish().await.map_err(failed)?;
            if events.len() >= limit || from_ns <= begin_ns {
                return Ok(Page {
                    events: events.into(),
                    notes,
                    ..Page::default()
                });
            }
            part_ns = part_ns.saturating_mul(LONGER);
        }
    }
}

fn failed(why: String) -> Refusal {
    Refusal(StatusCode::CONFLICT, why)
}

async fn next(tool: &mut Tool) -> Result<Option<Event>, Refusal> {
    let Some(line) = tool.line().await.map_err(failed)? else {
        return Ok(None);
    };
    #[derive(Deserialize)]
    struct Timed {
        #[serde(default)]
        time_ns: String,
    }
    let timed: Timed = serde_json::from_str(&line)
        .map_err(|error| failed(format!("cannot read the output of piste view: {error}")))?;
    let time_ns = timed.time_ns.parse();
    let time_ns = time_ns.map_err(|_| failed("the events of this trace have no timestamps".to_owned()))?;
    Ok(Some(Event { time_ns, line }))
}

/// Makes a page of the events; if they were cut, it ends where the time changes.
fn page(mut events: Vec<Event>, is_cut: bool, notes: Vec<String>) -> Page {
    let mut next_ns = None;
    let mut is_left_out = false;
    if let Some(over) = events.pop_if(|_| is_cut) {
        let same = events.iter().rev().take_while(|event| event.time_ns == over.time_ns);
        let rest = events.len() - same.count();
        is_left_out = rest == 0;
        next_ns = Some(over.time_ns.saturating_add(i64::from(is_left_out)));
        if !is_left_out {
            events.truncate(rest);
        }
    }
    Page {
        events,
        next_ns,
        is_left_out,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(times_ns: &[i64]) -> (usize, Option<i64>, bool) {
        let event = |time_ns: &i64| Event {
            time_ns: *time_ns,
            line: String::new(),
        };
        let page = page(times_ns.iter().map(event).collect(), true, Vec::new());
        (page.events.len(), page.next_ns, page.is_left_out)
    }

    #[test]
    fn a_page_ends_where_the_time_changes() {
        assert_eq!(cut(&[1, 2, 3]), (2, Some(3), false));
        assert_eq!(cut(&[1, 2, 2, 2]), (1, Some(2), false));
        // One time fills the page.
        assert_eq!(cut(&[2, 2, 2]), (2, Some(3), true));
        assert_eq!(cut(&[]), (0, None, false));
    }
}
