// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of processes is what the command says.

use super::*;

#[test]
fn processes_are_below_their_parents() {
    let Some((place, trace)) = recorded() else { return };
    let report = place.piste_json(&["analyze", "procs", text(&trace), "--limit", "10000"]);
    let rows = report["processes"].as_array().expect("rows");
    // Those of the test; others may be gone before anything is seen of them.
    let names = ["sleeper", "waker", "<img src=x>"];
    let own = rows
        .iter()
        .filter(|row| row["comm"].as_str().is_some_and(|name| names.contains(&name)));
    let parents: Vec<(i64, i64)> = own
        .map(|row| (whole_number(&row["pid"]), whole_number(&row["ppid"])))
        .collect();
    assert_eq!(parents.len(), names.len(), "{report:#}");
    let root = parents[0].1;
    assert!(parents.iter().all(|(_, ppid)| *ppid == root), "{report:#}");

    let server = Server::start(&place, &[text(&trace)]);
    server.settle();
    // By process: the parent that the trace says, from a fork or from the state dump.
    let listed = server.json("GET", "lanes", "").expect("lanes");
    let lanes = listed["lanes"].as_array().expect("a list");
    for row in rows.iter().filter(|row| !row["ppid"].is_null()) {
        let name = row["comm"].as_str().unwrap_or_default();
        let is_first = |lane: &&Value| lane["kind"] == "thread" && lane["tid"] == row["pid"] && lane["name"] == name;
        let lane = lanes.iter().find(is_first).unwrap_or_else(|| panic!("no {row}"));
        assert_eq!(lane["parent_pid"], row["ppid"], "{lane} {row}");
    }
    let from_dump = |lane: &Value| lane["created_by"].is_null() && lane["parent_pid"].as_i64() > Some(0);
    assert!(lanes.iter().any(from_dump), "{listed:#}");
    browse_with("tree", &server, &json!({ "parents": parents, "root": root }));
    server.end();
}
