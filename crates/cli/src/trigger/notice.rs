// SPDX-License-Identifier: MIT OR Apache-2.0
//! What triggers report, as a line of text and as a JSON object: matches, outcomes of actions, and how much was skipped.
//! docs/reference/triggers.md describes both.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use piste_control::interface::{TriggerActionKind, TriggerMatch, TriggerOutcome};
use serde::Serialize;
use serde_json::{Map, Value};

use super::actions;
use crate::quantity::{count, counted, duration};
use crate::screen::{BAD, STRONG, printable, styled};

/// `[09:41:07.123456789] late #3: shop:order, pid 1234, { vtid = 1234 }, { id = 1 }, 2 more since the last one`
pub(super) fn match_line(trigger: &str, matched: &TriggerMatch, zone: &TimeZone) -> String {
    let mut line = format!(
        "[{}] {} #{}: {}",
        time_of_day(matched.time_ns, zone),
        styled(STRONG, printable(trigger)),
        matched.number,
        printable(&matched.event)
    );
    if let Some(pid) = matched.pid {
        line += &format!(", pid {pid}");
    }
    // An event without contexts has no such scope, as in a trace.
    if !is_empty(&matched.contexts) {
        line += &format!(", {}", value_text(&matched.contexts));
    }
    if let Some(duration_ns) = matched.duration_ns {
        line += &format!(", after {}", duration(duration_ns));
    }
    line += &format!(", {}", value_text(&matched.fields));
    if matched.suppressed > 0 {
        line += &format!(", {} more since the last one", count(matched.suppressed));
    }
    line
}

/// `late #3: snapshot of session web written to /traces/web/snapshot-1`
pub(super) fn outcome_line(trigger: &str, outcome: &TriggerOutcome) -> String {
    let session = printable(&outcome.action.session);
    let kind = &outcome.action.kind;
    let what = match (&outcome.error, kind) {
        (Some(error), _) => {
            let what = match kind {
                TriggerActionKind::snapshot => "take a snapshot of",
                other => actions::name(other),
            };
            styled(BAD, format!("cannot {what} session {session}: {}", printable(error)))
        }
        (None, TriggerActionKind::snapshot) => format!("snapshot of session {session}{}", written(outcome)),
        (None, TriggerActionKind::rotate) => format!("chunk of session {session}{}", written(outcome)),
        (None, TriggerActionKind::start) => format!("session {session} started"),
        (None, TriggerActionKind::stop) => format!("session {session} stopped"),
    };
    format!("{} #{}: {what}", styled(STRONG, printable(trigger)), outcome.number)
}

fn written(outcome: &TriggerOutcome) -> String {
    match &outcome.output {
        Some(output) => format!(" written to {}", printable(output)),
        None => " written".into(),
    }
}

/// `WARNING: 3 notices were skipped: ...`
pub(super) fn skipped_line(skipped: i64) -> String {
    let were = if skipped == 1 { "was" } else { "were" };
    let sentence = format!(
        "WARNING: {} {were} skipped, because notices came faster than they were read",
        counted(skipped, "notice")
    );
    styled(BAD, sentence)
}

/// A line of `--json`. The keys of an event are those of `view --json`.
#[derive(Serialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub(super) enum Notice<'n> {
    Match {
        trigger: &'n str,
        number: i64,
        #[serde(serialize_with = "crate::json::time")]
        time_ns: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        time: Option<String>,
        #[serde(serialize_with = "crate::json::time")]
        noticed_ns: i64,
        name: &'n str,
        pid: Option<i64>,
        event_context: &'n Value,
        payload: &'n Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ns: Option<i64>,
        suppressed: i64,
    },
    Outcome {
        trigger: &'n str,
        number: i64,
        action: &'static str,
        session: &'n str,
        trace: Option<&'n str>,
        error: Option<&'n str>,
    },
    Skipped {
        count: i64,
    },
}

impl<'n> Notice<'n> {
    pub(super) fn of_match(trigger: &'n str, matched: &'n TriggerMatch) -> Notice<'n> {
        let time = Timestamp::from_nanosecond(matched.time_ns.into()).ok();
        Notice::Match {
            trigger,
            number: matched.number,
            time_ns: matched.time_ns,
            time: time.map(|time| format!("{time:.9}")),
            noticed_ns: matched.noticed_ns,
            name: &matched.event,
            pid: matched.pid,
            event_context: &matched.contexts,
            payload: &matched.fields,
            duration_ns: matched.duration_ns,
            suppressed: matched.suppressed,
        }
    }

    pub(super) fn of_outcome(trigger: &'n str, outcome: &'n TriggerOutcome) -> Notice<'n> {
        Notice::Outcome {
            trigger,
            number: outcome.number,
            action: actions::name(&outcome.action.kind),
            session: &outcome.action.session,
            trace: outcome.output.as_deref(),
            error: outcome.error.as_deref(),
        }
    }
}

fn is_empty(fields: &Value) -> bool {
    fields.is_null() || fields.as_object().is_some_and(Map::is_empty)
}

/// A value as `piste view` prints it.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "<none>".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(elements) => {
            let element = |(index, element)| format!("[{index}] = {}", value_text(element));
            enclosed('[', elements.iter().enumerate().map(element), ']')
        }
        Value::Object(fields) => enumeration(fields).unwrap_or_else(|| {
            let field = |(name, value): (&String, &Value)| format!("{} = {}", printable(name), value_text(value));
            enclosed('{', fields.iter().map(field), '}')
        }),
    }
}

/// `{ a, b }`
fn enclosed(opening: char, parts: impl Iterator<Item = String>, closing: char) -> String {
    let mut text = String::from(opening);
    for (index, part) in parts.enumerate() {
        text += if index == 0 { " " } else { ", " };
        text += &part;
    }
    text.push(' ');
    text.push(closing);
    text
}

/// `( "tea" : container = 1 )`, of `{"value": 1, "labels": ["tea"]}`.
fn enumeration(fields: &Map<String, Value>) -> Option<String> {
    let (value, labels) = (fields.get("value")?, fields.get("labels")?.as_array()?);
    if fields.len() != 2 || !labels.iter().all(Value::is_string) {
        return None;
    }
    let labels = match labels.is_empty() {
        true => "<unknown>".into(),
        false => labels.iter().map(value_text).collect::<Vec<_>>().join(", "),
    };
    let number = value
        .as_str()
        .map_or_else(|| value_text(value), |text| printable(text).into_owned());
    Some(format!("( {labels} : container = {number} )"))
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", printable(&text))
}

/// `09:41:07.123456789`
fn time_of_day(ns: i64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(ns.into()) {
        Ok(time) => zone.to_datetime(time).strftime("%H:%M:%S.%9f").to_string(),
        Err(_) => ns.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::json;

    use super::*;
    use crate::trigger::tests::action;

    fn matched() -> TriggerMatch {
        TriggerMatch {
            number: 3,
            event: "shop:order".into(),
            time_ns: 1_795_340_467_023_456_700,
            noticed_ns: 1_795_340_467_024_000_000,
            pid: Some(1234),
            contexts: json!({ "vtid": 1234, "procname": "shop" }),
            fields: json!({ "id": 1, "customer": "ada" }),
            duration_ns: None,
            suppressed: 0,
        }
    }

    fn line(matched: &TriggerMatch) -> String {
        strip_str(&match_line("late", matched, &TimeZone::UTC)).to_string()
    }

    #[test]
    fn a_match_is_a_line() {
        assert_eq!(
            line(&matched()),
            r#"[09:41:07.023456700] late #3: shop:order, pid 1234, { procname = "shop", vtid = 1234 }, { customer = "ada", id = 1 }"#
        );
        let of_kernel = TriggerMatch {
            event: "sched_switch\u{1b}".into(),
            pid: None,
            contexts: json!({}),
            fields: json!({}),
            suppressed: 1200,
            ..matched()
        };
        assert_eq!(
            line(&of_kernel),
            r"[09:41:07.023456700] late #3: sched_switch\u{1b}, { }, 1,200 more since the last one"
        );
    }

    #[test]
    fn values_are_as_view_prints_them() {
        for (value, expected) in [
            (json!(null), "<none>"),
            (json!(true), "true"),
            (json!(-5), "-5"),
            (json!(9.5), "9.5"),
            (json!("say \"hi\"\\\n"), r#""say \"hi\"\\\n""#),
            (json!([]), "[ ]"),
            (json!([1, "a"]), r#"[ [0] = 1, [1] = "a" ]"#),
            (json!({ "a": { "b": [] } }), "{ a = { b = [ ] } }"),
            (
                json!({ "value": 1, "labels": ["tea", "chai"] }),
                r#"( "tea", "chai" : container = 1 )"#,
            ),
            (json!({ "value": 7, "labels": [] }), "( <unknown> : container = 7 )"),
            (json!({ "value": 7, "labels": 1 }), "{ labels = 1, value = 7 }"),
        ] {
            assert_eq!(value_text(&value), expected);
        }
    }

    fn outcome(kind: TriggerActionKind, output: Option<&str>, error: Option<&str>) -> TriggerOutcome {
        TriggerOutcome {
            number: 3,
            action: action(kind, "web"),
            output: output.map(str::to_owned),
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn an_outcome_says_what_was_done_or_why_not() {
        use TriggerActionKind as Kind;
        for (kind, output, error, expected) in [
            (
                Kind::snapshot,
                Some("/s"),
                None,
                "snapshot of session web written to /s",
            ),
            (Kind::rotate, Some("/c"), None, "chunk of session web written to /c"),
            (Kind::start, None, None, "session web started"),
            (Kind::stop, None, None, "session web stopped"),
            (
                Kind::snapshot,
                None,
                Some("no"),
                "cannot take a snapshot of session web: no",
            ),
            (Kind::rotate, None, Some("no"), "cannot rotate session web: no"),
            (Kind::start, None, Some("no"), "cannot start session web: no"),
            (Kind::stop, None, Some("no"), "cannot stop session web: no"),
        ] {
            let line = outcome_line("late", &outcome(kind, output, error));
            assert_eq!(strip_str(&line).to_string(), format!("late #3: {expected}"));
        }
    }

    #[test]
    fn notices_are_json_with_times_and_large_numbers_as_text() {
        let mut matched = matched();
        matched.fields = json!({ "near": 1_u64 << 53, "far": ["18446744073709551615", "-9223372036854775808"] });
        let written = |notice: &Notice<'_>| serde_json::to_value(notice).unwrap();
        assert_eq!(
            written(&Notice::of_match("late", &matched)),
            json!({
                "notice": "match",
                "trigger": "late",
                "number": 3,
                "time_ns": "1795340467023456700",
                "time": "2026-11-22T09:41:07.023456700Z",
                "noticed_ns": "1795340467024000000",
                "name": "shop:order",
                "pid": 1234,
                "event_context": { "vtid": 1234, "procname": "shop" },
                "payload": { "near": 1_u64 << 53, "far": ["18446744073709551615", "-9223372036854775808"] },
                "suppressed": 0
            })
        );
        let rotated = outcome(TriggerActionKind::rotate, Some("/c"), None);
        assert_eq!(
            written(&Notice::of_outcome("late", &rotated)),
            json!({
                "notice": "outcome",
                "trigger": "late",
                "number": 3,
                "action": "rotate",
                "session": "web",
                "trace": "/c",
                "error": null
            })
        );
        assert_eq!(
            written(&Notice::Skipped { count: 7 }),
            json!({ "notice": "skipped", "count": 7 })
        );
        assert_eq!(
            strip_str(&skipped_line(7)).to_string(),
            "WARNING: 7 notices were skipped, because notices came faster than they were read"
        );
    }
}
