// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flame graphs and spans of ranges are what the command answers.

use piste_support::Compilation;

use super::*;

/// A range of the trace, from its beginning.
fn from_begin(range: (i64, i64), begin_ns: i64) -> Value {
    json!({ "begin": range.0 - begin_ns, "end": range.1 - begin_ns })
}

fn with(mut expected: Value, more: Value) -> Value {
    let (Value::Object(all), Value::Object(more)) = (&mut expected, more) else {
        unreachable!("both are objects")
    };
    all.extend(more);
    expected
}

/// How the server is asked for a flame graph, and what it answers, which is what the command prints.
fn flame(place: &Workplace, server: &Server, trace: &Path, range: (i64, i64), tid: Option<&Value>) -> (String, Value) {
    let [begin, end] = [range.0.to_string(), range.1.to_string()];
    let mut arguments = vec!["analyze", "flame", text(trace), "--begin", &begin, "--end", &end];
    let tid = tid.map(ToString::to_string);
    arguments.extend(tid.iter().flat_map(|tid| ["--tid", tid]));
    let expected = place.piste_json(&[&arguments[..], &["--limit", "4001"]].concat());
    let whose = tid.map_or_else(String::new, |tid| format!("&tid={tid}"));
    let asked = format!("analysis/flame?begin={begin}&end={end}&limit=4001{whose}");
    assert_eq!(server.json("GET", &asked, "").expect("a graph"), expected);
    (asked, expected)
}

fn span(server: &Server) -> (i64, i64) {
    let status = server.settle();
    (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]))
}

#[test]
fn a_flame_graph_of_functions_is_that_of_the_command() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let compilation = Compilation::of(&["call_costs.c"]).with("-finstrument-functions");
    let program = place.compile(&compilation, "call_costs");
    let recording = place.record(&["--preload", "functions"], program, &[]);
    recording.expect_whole();
    let recorded = recording.trace();
    let trace = recorded.path();
    let server = Server::start(&place, &[text(trace)]);
    let whole = span(&server);
    let (asked, expected) = flame(&place, &server, trace, whole, None);
    assert!(
        expected["calls"].as_array().is_some_and(|calls| calls.len() == 19),
        "{expected}"
    );
    browse_with(
        "flame",
        &server,
        &with(from_begin(whole, whole.0), json!({ "all": asked })),
    );
    server.end();
}

#[test]
fn a_flame_graph_of_stacks_is_that_of_the_command() {
    if !has_viewer() {
        return;
    }
    let Some(place) = kernel::workplace() else { return };
    let options = ["--no-user", "-k", "sched_switch,sched_wakeup", "--callstack", "kernel"];
    let recording = place.record_with_kernel(&options, "python3", &["-c", PROGRAM]);
    recording.finished.expect_success();
    place.let_others_record();
    let recorded = recording.trace();
    let trace = recorded.path();
    let server = Server::start(&place, &[text(trace)]);
    let whole = span(&server);
    let length_ns = whole.1 - whole.0;
    // From when on the sleeper has its name: on a busy machine, that takes a while.
    let sql = "SELECT min(time_ns) AS time_ns FROM sched_switch WHERE prev_comm = 'sleeper'";
    let named = place.piste_json(&["query", text(trace), sql]);
    let named_ns = whole_number(&named[0]["time_ns"]);
    let range = (named_ns.max(whole.0 + length_ns / 8), whole.1 - length_ns / 8);
    let listed = server.json("GET", "lanes", "").expect("lanes");
    let lanes = listed["lanes"].as_array().expect("a list");
    let mut threads = lanes.iter().filter(|lane| lane["kind"] == "thread");
    let sleeper = threads.find(|lane| lane["name"] == "sleeper").expect("sleeper");
    let (asked_all, all) = flame(&place, &server, trace, range, None);
    let (asked_one, one) = flame(&place, &server, trace, range, Some(&sleeper["tid"]));
    for table in ["off_cpu", "events"] {
        let rows = all[table].as_array().unwrap_or_else(|| panic!("no {table}: {all}"));
        assert!(rows.len() > 10, "{all}");
    }
    assert!(one["off_cpu"].as_array().is_some_and(|rows| rows.len() > 3), "{one}");
    let more = json!({ "lane": sleeper["id"], "all": asked_all, "one": asked_one });
    browse_with("flameKinds", &server, &with(from_begin(range, whole.0), more));
    server.end();
}

#[test]
fn a_trace_without_stacks_says_how_to_record_them() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    browse("flameNothing", &server);
    server.end();
}

#[test]
fn spans_of_a_range_are_what_the_command_answers() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let options = ["-u", "work:*,step:*", "--block", "forever"];
    let recording = place.record(&options, place.program("spans.c"), &["500"]);
    recording.expect_whole();
    let recorded = recording.trace();
    let trace = recorded.path();
    let server = Server::start(&place, &[text(trace)]);
    let whole = span(&server);
    let sql = "SELECT begin_ns FROM spans WHERE name = 'work:round' AND begin_ns IS NOT NULL ORDER BY begin_ns";
    let rounds = place.piste_json(&["query", text(trace), sql]);
    let rounds = rounds.as_array().expect("rows");
    // One that begins and ends within rounds.
    let within = |part: usize| whole_number(&rounds[rounds.len() * part / 4]["begin_ns"]) + 1;
    let part = (within(1), within(3));
    for range in [whole, part] {
        let answer = compare_spans(&place, &server, trace, range);
        if range == part {
            let row = |name: &str| {
                answer["spans"]
                    .as_array()?
                    .iter()
                    .find(|row| row["name"] == name)
                    .cloned()
            };
            assert!(
                row("work:round").is_some_and(|row| row["beyond"].as_u64() > Some(0)),
                "{answer}"
            );
            continue;
        }
        let slowest = &answer["spans"][0];
        let more = json!({
            "spans": answer["spans"],
            "slowest": {
                "lane": slowest["slowest_lane"],
                "at": whole_number(&slowest["slowest_begin_ns"]) - whole.0,
            },
        });
        browse_with("spans", &server, &with(from_begin(range, whole.0), more));
    }
    let (_, token) = server.parts();
    for wrong in ["spans", "spans?begin=1", "spans?begin=x&end=2", "spans?begin=1&end="] {
        let (status, answer) = server.ask("GET", &format!("{token}api/0/{wrong}"), &[]);
        assert_eq!(status, 400, "{answer}");
    }
    let nothing = server.json("GET", &format!("spans?begin={}&end={}", whole.1, whole.0), "");
    assert_eq!(nothing.expect("an answer")["spans"], json!([]));
    server.end();
}

/// What the server says of spans in a range is what queries and periods say.
fn compare_spans(place: &Workplace, server: &Server, trace: &Path, (begin, end): (i64, i64)) -> Value {
    let answer = server.json("GET", &format!("spans?begin={begin}&end={end}"), "");
    let answer = answer.expect("spans");
    for no in ["has_losses", "is_part"] {
        assert_eq!(answer[no], false, "{answer}");
    }
    assert_eq!(answer["left_out"], 0);
    let sql = format!(
        "SELECT name, \
            count(*) FILTER (WHERE begin_ns >= {begin} AND end_ns <= {end}) AS count, \
            count(*) FILTER (WHERE duration_ns IS NOT NULL AND (begin_ns < {begin} OR end_ns > {end})) AS beyond, \
            count(*) FILTER (WHERE duration_ns IS NULL) AS incomplete, \
            count(DISTINCT tid) AS threads, \
            sum(duration_ns) FILTER (WHERE begin_ns >= {begin} AND end_ns <= {end}) AS total_ns, \
            max(duration_ns) FILTER (WHERE begin_ns >= {begin} AND end_ns <= {end}) AS max_ns \
        FROM spans WHERE name NOT LIKE 'lttng%' \
            AND COALESCE(begin_ns, end_ns) <= {end} AND (end_ns IS NULL OR end_ns > {begin}) GROUP BY name ORDER BY total_ns DESC NULLS LAST"
    );
    let queried = place.piste_json(&["query", text(trace), &sql]);
    let (rows, queried) = (
        answer["spans"].as_array().expect("rows"),
        queried.as_array().expect("rows"),
    );
    assert_eq!(rows.len(), queried.len(), "{answer}");
    for (row, expected) in rows.iter().zip(queried) {
        for key in ["name", "count", "beyond", "incomplete", "threads", "total_ns", "max_ns"] {
            assert_eq!(row[key], expected[key], "{key}: {row} {expected}");
        }
    }
    // Percentiles have the accuracy of all analyses.
    let [begin, end] = [begin.to_string(), end.to_string()];
    let expressions = ["name == \"work:round_begin\"", "name == \"work:round_end\""];
    let asked = ["analyze", "periods", text(trace), "--begin", &begin, "--end", &end];
    let periods = ["--begin-event", expressions[0], "--end-event", expressions[1]];
    let periods = place.piste_json(&[&asked[..], &periods].concat());
    let expected = &periods["periods"][0];
    let round = rows.iter().find(|row| row["name"] == "work:round").expect("rounds");
    for key in ["count", "total_ns", "p50_ns", "p99_ns", "max_ns"] {
        assert_eq!(round[key], expected[key], "{key}: {round} {expected}");
    }
    answer
}
