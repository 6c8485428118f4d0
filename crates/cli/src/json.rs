// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of `--json`, the same for all commands: docs/reference/json.md. What pisted answers is put into them here.

use std::io;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::failure::Failure;

/// A time, in nanoseconds since the clock's origin: as a text, because it has more digits than the numbers of jq and JavaScript can hold.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
pub(crate) fn time<S: Serializer>(ns: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(ns)
}

/// A time that may be unknown.
pub(crate) fn known_time<S: Serializer>(ns: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    match ns {
        Some(ns) => to.collect_str(ns),
        None => to.serialize_none(),
    }
}

/// What pisted answered, in the words of the command's JSON.
pub(crate) fn of_pisted(answer: &impl Serialize) -> Result<Value, Failure> {
    let answer = serde_json::to_value(answer).map_err(io::Error::from)?;
    Ok(in_our_words(answer))
}

fn in_our_words(value: Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(in_our_words).collect(),
        Value::Object(all) => all
            .into_iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("output", value) => ("trace".to_owned(), value),
                ("offset", value) => ("offset_bytes".to_owned(), value),
                ("started_ns" | "last_ns", Value::Number(ns)) => (key, Value::String(ns.to_string())),
                (_, value) => (key, in_our_words(value)),
            })
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_pisted_answers_is_told_in_our_words() {
        let answer = json!({ "sessions": [{ "output": "/t", "started_ns": 7, "duration_ns": 8 }], "places": [{ "offset": 1 }], "last_ns": 9 });
        assert_eq!(
            of_pisted(&answer).expect("JSON"),
            json!({ "sessions": [{ "trace": "/t", "started_ns": "7", "duration_ns": 8 }], "places": [{ "offset_bytes": 1 }], "last_ns": "9" })
        );
    }
}
