// SPDX-License-Identifier: MIT OR Apache-2.0
//! What pages wait for, and how far it is.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, House, Json};

/// Where the paths of answers begin, behind the token.
const ANSWERS: &str = "/api/";

/// How far a command is that answers a question.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Way {
    /// What it does: `analyzing`.
    what: String,
    done_bytes: u64,
    total_bytes: u64,
}

/// A request that a command answers. The question lives as long as the one or the other.
#[derive(Clone, Debug)]
pub(crate) struct Question(Arc<Open>);

#[derive(Debug)]
struct Open {
    /// Of the request, behind `/TOKEN/api/`.
    path: String,
    way: Mutex<Option<Way>>,
}

impl Question {
    /// Notes how far it is.
    pub(crate) fn note(&self, way: Way) {
        *self.0.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
    }
}

impl FromRequestParts<Arc<House>> for Question {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, house: &Arc<House>) -> Result<Question, Infallible> {
        let path = parts.uri.path().split_once(ANSWERS).map_or("", |(_, path)| path);
        Ok(house.questions.open(path.to_owned()))
    }
}

/// All questions that are open.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Vec<Weak<Open>>>);

impl Questions {
    fn open(&self, path: String) -> Question {
        let question = Arc::new(Open {
            path,
            way: Mutex::new(None),
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|open| open.strong_count() > 0);
        all.push(Arc::downgrade(&question));
        Question(question)
    }

    /// How far the newest question with this path is.
    fn way(&self, path: &str) -> Option<Way> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = all
            .iter()
            .rev()
            .filter_map(Weak::upgrade)
            .find(|open| open.path == path)?;
        newest.way.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `GET /api/progress/PATH`: how far the answer to `/api/PATH` is; null while that is not known.
pub(crate) async fn progress(State(house): Asked, Path(path): Path<String>) -> Json<Option<Way>> {
    Json(house.questions.way(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(done_bytes: u64) -> Way {
        Way {
            what: "analyzing".to_owned(),
            done_bytes,
            total_bytes: 100,
        }
    }

    #[test]
    fn the_newest_question_that_somebody_waits_for_tells_its_progress() {
        let questions = Questions::default();
        assert_eq!(questions.way("0/diff/1"), None);
        let first = questions.open("0/diff/1".into());
        assert_eq!(questions.way("0/diff/1"), None);
        first.note(way(1));
        let second = questions.open("0/diff/1".into());
        let other = questions.open("1/insights".into());
        other.note(way(3));
        second.note(way(2));
        assert_eq!(questions.way("0/diff/1"), Some(way(2)));
        drop(second);
        assert_eq!(questions.way("0/diff/1"), Some(way(1)));
        drop(first);
        assert_eq!(questions.way("0/diff/1"), None);
        assert_eq!(questions.way("1/insights"), Some(way(3)));
    }
}
