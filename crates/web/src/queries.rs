// SPDX-License-Identifier: MIT OR Apache-2.0
//! SQL from the page, answered by `piste query`.
//!
//! A query may read the trace and nothing else. `piste query` refuses statements that write or name files, but it obeys `SET`, which can create
//! folders and lift the memory limit. So:
//!
//! - The SQL must begin with a word that reads: see [`READING`]. Comments before it are not handed on, so nothing can hide there.
//! - It must be one statement: with `--output`, `piste query` refuses several.
//! - It goes to the standard input: as an argument, a text without spaces would be the path of another trace.

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::csv;
use crate::pages::{Asked, Json, Refusal};
use crate::questions::Question;
use crate::tools::Tool;

/// First words of statements that only read.
const READING: [&str; 7] = ["select", "with", "explain", "show", "describe", "desc", "values"];
const SQL_BYTES_MAX: usize = 64 << 10;
const ROWS_MAX: usize = 100_000;
const ANSWER_BYTES_MAX: u64 = 64 << 20;

#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// Rows.
    limit: usize,
}

/// Rows of a query, as text. NULL is an empty text.
#[derive(Serialize)]
pub(crate) struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Whether the query has rows after these.
    has_more: bool,
    notes: Vec<String>,
}

/// `POST /api/N/query?limit`, with the SQL as the body.
pub(crate) async fn query(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(wanted): Query<Wanted>,
    question: Question,
    body: Bytes,
) -> Result<Json<Answer>, Refusal> {
    let recording = house.recording(number)?;
    let wrong = |why: &str| Refusal(StatusCode::BAD_REQUEST, why.to_owned());
    let sql = std::str::from_utf8(&body).map_err(|_| wrong("the SQL is not valid UTF-8"))?;
    if sql.len() > SQL_BYTES_MAX {
        return Err(wrong("the SQL is longer than 64 KiB"));
    }
    let sql = reading(sql).ok_or_else(|| {
        wrong("only statements that read data are allowed here: SELECT, WITH, VALUES, EXPLAIN, SHOW and DESCRIBE")
    })?;
    let arguments = ["query", "--format", "csv", "--output", "/dev/stdout"];
    let failed = |why: String| {
        let is_several = why.starts_with("--output writes the rows of one statement");
        let several = || "there are several statements; run them one at a time".to_owned();
        Refusal(StatusCode::CONFLICT, if is_several { several() } else { why })
    };
    let mut tool = Tool::start(&house.piste, &arguments, &recording.path, sql, &question).map_err(failed)?;
    let answer = rows(&mut tool, wanted.limit.min(ROWS_MAX)).await.map_err(failed)?;
    match answer.has_more {
        // The tool is dropped, which ends it.
        true => Ok(Json(answer)),
        false => {
            let notes = tool.finish().await.map_err(failed)?;
            Ok(Json(Answer { notes, ..answer }))
        }
    }
}

async fn rows(tool: &mut Tool, limit: usize) -> Result<Answer, String> {
    let mut answer = Answer {
        columns: Vec::new(),
        rows: Vec::new(),
        has_more: false,
        notes: Vec::new(),
    };
    let mut csv = csv::Rows::default();
    let mut columns = None;
    let mut bytes = 0_u64;
    loop {
        let part = tool.read().await?;
        if part.is_empty() {
            break;
        }
        bytes = bytes.saturating_add(part.len() as u64);
        for row in part.iter().filter_map(|byte| csv.take(*byte)) {
            match columns {
                None => columns = Some(row),
                Some(_) if answer.rows.len() < limit => answer.rows.push(row),
                Some(_) => answer.has_more = true,
            }
        }
        // Very long rows are cut off like too many rows.
        answer.has_more |= bytes > ANSWER_BYTES_MAX;
        if answer.has_more {
            break;
        }
    }
    answer.columns = columns.unwrap_or_default();
    Ok(answer)
}

/// The SQL with spaces instead of the comments before its first word; `None` if that word may do more than read.
fn reading(sql: &str) -> Option<String> {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace());
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
        } else {
            break;
        }
    }
    // `piste query` refuses an empty text with a hint.
    let words = rest.trim_start_matches(|letter: char| letter == '(' || letter.is_whitespace());
    let end = words.find(|letter: char| !letter.is_ascii_alphabetic());
    let first = words[..end.unwrap_or(words.len())].to_ascii_lowercase();
    if !rest.is_empty() && !READING.contains(&first.as_str()) {
        return None;
    }
    // Error messages name lines and columns: those of the whole text.
    let (before, _) = sql.split_at(sql.len() - rest.len());
    let blank = before.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' });
    Some(blank.chain(rest.chars()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_read_are_allowed() {
        for sql in [
            "SELECT 1",
            "select(1)",
            "(SELECT 1) UNION (SELECT 2)",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "\n  SHOW TABLES;",
            "",
        ] {
            assert_eq!(reading(sql).as_deref(), Some(sql), "{sql}");
        }
    }

    #[test]
    fn comments_before_the_first_word_become_spaces() {
        assert_eq!(reading("-- é\nSELECT 1").as_deref(), Some("    \nSELECT 1"));
        assert_eq!(reading("/* a\nb */ SELECT 1").as_deref(), Some("    \n     SELECT 1"));
        assert_eq!(reading("-- nothing else").as_deref(), Some("               "));
    }

    #[test]
    fn others_are_refused() {
        for sql in [
            "SET datafusion.runtime.temp_directory = '/tmp/x'",
            "-- SELECT\nSET a = 1",
            "/* SELECT */ SET a = 1",
            "/* /* */ SELECT */ SET a = 1",
            "/* SELECT 1",
            "COPY (SELECT 1) TO '/tmp/x'",
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "; SET a = 1",
            "selected",
            "/etc",
        ] {
            let handed_on = reading(sql);
            let is_harmless = handed_on
                .as_deref()
                .is_none_or(|sql| sql.trim_start().starts_with("SELECT"));
            assert!(is_harmless, "{sql}: {handed_on:?}");
        }
        assert_eq!(reading("SET a = 1"), None);
        assert_eq!(reading("/etc"), None);
    }
}
