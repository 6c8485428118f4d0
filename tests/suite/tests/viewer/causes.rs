// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a picture to its cause: critical paths, arrows of wake-ups, and how a piece compares with others are what the command answers.

use super::*;

/// A server with its timeline, and when the trace begins and ends.
fn serve(place: &Workplace, trace: &Path) -> (Server, (i64, i64)) {
    let server = Server::start(place, &[text(trace)]);
    let status = server.settle();
    let span = (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]));
    (server, span)
}

fn lanes(server: &Server) -> Vec<Value> {
    let listed = server.json("GET", "lanes", "").expect("lanes");
    listed["lanes"].as_array().expect("a list").clone()
}

/// The thread with a name.
fn thread<'l>(lanes: &'l [Value], name: &str) -> &'l Value {
    let found = lanes
        .iter()
        .find(|lane| lane["kind"] == "thread" && lane["name"] == name);
    found.unwrap_or_else(|| panic!("no thread {name}"))
}

#[test]
fn a_critical_path_is_that_of_the_command() {
    let Some((place, trace)) = recorded() else { return };
    let (server, (begin_ns, _)) = serve(&place, &trace);
    let lanes = lanes(&server);
    let sleeper = thread(&lanes, "sleeper");
    // It lives for 600 ms at least.
    let born_ns = whole_number(&sleeper["first_ns"]);
    let range = (born_ns + 50_000_000, born_ns + 550_000_000);
    let [begin, end, tid] = [range.0.to_string(), range.1.to_string(), sleeper["tid"].to_string()];
    let asked = [
        "analyze",
        "critical-path",
        text(&trace),
        "--tid",
        &tid,
        "--begin",
        &begin,
    ];
    let expected = place.piste_json(&[&asked[..], &["--end", &end, "--limit", "4001"]].concat());
    let path = format!("analysis/critical-path?begin={begin}&end={end}&limit=4001&tid={tid}");
    assert_eq!(server.json("GET", &path, "").expect("a path"), expected);
    let segments = expected["path"].as_array().expect("segments");
    assert!(segments.len() > 10, "{expected}");
    browse_with(
        "path",
        &server,
        &json!({
            "lane": sleeper["id"],
            "begin": range.0 - begin_ns,
            "end": range.1 - begin_ns,
            "causes": expected["causes"],
            "threads": expected["threads"],
            "blocked": {
                "tid": sleeper["tid"],
                "ns": server.sums(sleeper["id"].as_u64().expect("a number"), range).get("blocked"),
            },
        }),
    );
    for wrong in ["tid=-1", "tid=x", "tid=--help"] {
        let (_, token) = server.parts();
        let (status, answer) = server.ask("GET", &format!("{token}api/0/analysis/critical-path?{wrong}"), &[]);
        assert_eq!(status, 400, "{answer}");
    }
    server.end();
}

#[test]
fn what_a_thread_woke_is_what_queries_answer() {
    let Some((place, trace)) = recorded() else { return };
    // Lane ids, and the ends of the waits that each thread ended, with the threads that waited.
    let sql = "SELECT waker_tid, tid, end_ns FROM thread_states \
        WHERE state IN ('blocked', 'stopped') AND waker_tid <> 0 AND waker_interrupt IS NULL AND tid <> waker_tid";
    let answer = place.piste_json(&["query", text(&trace), sql]);
    let mut woken: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    for row in answer.as_array().expect("rows") {
        let number = |name: &str| whole_number(&row[name]);
        woken
            .entry(number("waker_tid"))
            .or_default()
            .insert(number("end_ns"), number("tid"));
    }
    let (server, (begin_ns, end_ns)) = serve(&place, &trace);
    let threads: Vec<Value> = lanes(&server)
        .into_iter()
        .filter(|lane| lane["kind"] == "thread")
        .collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut found = 0;
    for (tid, woken) in &woken {
        let own: Vec<&Value> = threads.iter().filter(|lane| lane["tid"] == *tid).collect();
        let [own] = own[..] else { continue };
        let chosen = (0..30).map(|_| begin_ns + random.below((end_ns - begin_ns) as u64) as i64);
        // Also exactly at a wake-up, and right behind it.
        let exact = woken.keys().flat_map(|ns| [*ns, *ns + 1]).take(40);
        for at in chosen.chain(exact) {
            let answer = server.json("GET", &format!("wakes?lane={}&at={at}", own["id"]), "");
            let answer = answer.expect("an answer");
            assert_eq!(answer["until_ns"], Value::Null, "{answer}");
            let expected = woken.range(at..).next().map(|(ns, tid)| (*ns, *tid));
            let wait = &answer["wait"];
            let seen = (!wait.is_null()).then(|| {
                let lane = threads.iter().find(|lane| lane["id"] == wait["lane"]).expect("a lane");
                (whole_number(&wait["end_ns"]), whole_number(&lane["tid"]))
            });
            assert_eq!(seen, expected, "{tid} at {at}: {answer}");
            found += usize::from(seen.is_some());
        }
    }
    assert!(found > 20, "{found}");
    // While the waker wakes; a busy machine records for a while after its end.
    let waker = whole_number(&thread(&threads, "waker")["tid"]);
    let waking = woken[&waker].keys();
    let ends = [waking.clone().next(), waking.clone().next_back()];
    let [begin, end] = ends.map(|ns| ns.expect("it wakes") - begin_ns);
    browse_with("wakes", &server, &json!({ "begin": begin, "end": end }));
    server.end();
}

#[test]
fn comparisons_count_what_queries_answer() {
    let Some((place, trace)) = recorded() else { return };
    let sql = "SELECT tid, begin_ns, duration_ns FROM syscalls WHERE name = 'openat'";
    let answer = place.piste_json(&["query", text(&trace), sql]);
    let mut calls: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for row in answer.as_array().expect("rows") {
        let number = |name: &str| whole_number(&row[name]);
        let of_thread = calls.entry(number("tid")).or_default();
        of_thread.push((number("duration_ns"), number("begin_ns")));
    }
    let (server, (begin_ns, _)) = serve(&place, &trace);
    let lanes = lanes(&server);
    let (tid, own) = calls.iter_mut().max_by_key(|(_, own)| own.len()).expect("calls");
    own.sort_unstable();
    let own = own.clone();
    let thread = lanes
        .iter()
        .find(|lane| lane["kind"] == "thread" && lane["tid"] == *tid)
        .expect("a thread");
    let lane = lanes
        .iter()
        .find(|lane| lane["kind"] == "calls" && lane["of"] == thread["id"])
        .expect("a lane");
    let (middle_ns, at) = own[own.len() / 2];
    let alike = |among: &str| {
        let answer = server.json("GET", &format!("alike?lane={}&at={at}&among={among}", lane["id"]), "");
        answer.expect("a comparison")
    };
    let all: Vec<(i64, i64)> = calls.values().flatten().copied().collect();
    for (among, expected) in [("lane", &own), ("kind", &all)] {
        let answer = alike(among);
        assert_eq!(answer["is_part"], false);
        assert_eq!(answer["count"], expected.len(), "{answer}");
        let shorter = expected.iter().filter(|(ns, _)| *ns < middle_ns).count();
        assert_eq!(answer["shorter"], shorter, "{answer}");
        assert_eq!(answer["total_ns"], expected.iter().map(|(ns, _)| ns).sum::<i64>());
        let mut counted = 0;
        for bar in answer["bars"].as_array().expect("bars") {
            let (from, to) = (whole_number(&bar["from_ns"]), whole_number(&bar["to_ns"]));
            let mut within: Vec<i64> = expected
                .iter()
                .map(|(ns, _)| *ns)
                .filter(|ns| (from..to).contains(ns))
                .collect();
            assert_eq!(bar["count"], within.len(), "{bar}");
            within.sort_unstable_by(|one, other| other.cmp(one));
            let slowest = bar["slowest"].as_array().expect("a list").iter();
            let slowest: Vec<i64> = slowest.map(|slow| whole_number(&slow["duration_ns"])).collect();
            assert_eq!(slowest, within[..slowest.len()], "{bar}");
            assert_eq!(slowest.len(), within.len().min(5));
            counted += within.len();
        }
        assert_eq!(counted, expected.len());
    }
    let (slowest_ns, slowest_at) = own[own.len() - 1];
    let on_cpu = |(at, ns): (i64, i64)| -> i64 {
        let sums = server.sums(thread["id"].as_u64().expect("a number"), (at, at + ns));
        let classes = ["running", "user", "kernel", "interrupted"];
        classes.iter().filter_map(|class| sums.get(*class)).sum()
    };
    browse_with(
        "alike",
        &server,
        &json!({
            "lane": lane["id"],
            "thread": thread["id"],
            "at": at - begin_ns,
            "count": own.len(),
            "shorter": own.iter().filter(|(ns, _)| *ns < middle_ns).count(),
            "onCpuNs": on_cpu((at, middle_ns)),
            "slowestNs": slowest_ns,
            "slowestAt": slowest_at - begin_ns,
        }),
    );
    let (_, token) = server.parts();
    let at = "9223372036854775807";
    for wrong in [
        "alike?lane=0&at=1",
        "alike?lane=0&at=1&among=all",
        "wakes?lane=x&at=1",
        "wakes?lane=0&at=",
    ] {
        let (status, answer) = server.ask("GET", &format!("{token}api/0/{wrong}"), &[]);
        assert_eq!(status, 400, "{answer}");
    }
    assert!(
        server
            .json("GET", &format!("alike?lane=0&at={at}&among=kind"), "")
            .is_err()
    );
    for lane in [0, u32::MAX] {
        let wakes = server
            .json("GET", &format!("wakes?lane={lane}&at={at}"), "")
            .expect("an answer");
        assert_eq!(wakes["wait"], Value::Null);
    }
    server.end();
}
