// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-iolatencystats` and `-iousagetop` of disks and network interfaces, and `piste analyze iolog`, `iotop`, `nettop`.

use std::collections::{BTreeMap, BTreeSet};

use piste_support::report::{number, rows};
use serde_json::Value;

use crate::Compared;
use crate::events::Event;
use crate::lttng::{self, sum};

/// A request that was issued and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    begin_ns: i64,
    end_ns: i64,
    device: i64,
    sectors: i64,
}

/// What lttng-analyses makes of the events, and whose time Piste cannot tell.
#[derive(Default)]
struct Requests {
    /// From the last issue at a sector to the completion of as many sectors there; whatever has none is left out.
    all: Vec<Request>,
    /// Of these, those of which an earlier one at the same place had not ended, as far as events say, or that were given back by the device.
    unclear: BTreeSet<Request>,
}

fn requests(events: &[Event]) -> Requests {
    let mut requests = Requests::default();
    let mut open = BTreeMap::<(i64, i64), (i64, i64)>::new();
    let mut unclear = BTreeSet::<(i64, i64)>::new();
    for event in events.iter().filter(|event| event.name.starts_with("block_rq_")) {
        let place = (event.number("dev"), event.number("sector"));
        let sectors = event.number("nr_sector");
        match event.name.as_str() {
            "block_rq_requeue" => _ = unclear.insert(place),
            "block_rq_issue" if sectors > 0 => {
                let earlier = open.insert(place, (event.ns, sectors));
                unclear.extend(earlier.map(|_| place));
            }
            "block_rq_complete" if sectors > 0 => {
                let Some((begin_ns, _)) = open.get(&place).copied().filter(|(_, issued)| *issued == sectors) else {
                    // It has lost its begin, or comes in parts.
                    unclear.insert(place);
                    continue;
                };
                open.remove(&place);
                let request = Request {
                    begin_ns,
                    end_ns: event.ns,
                    device: place.0,
                    sectors,
                };
                requests.all.push(request);
                if unclear.contains(&place) {
                    requests.unclear.insert(request);
                }
            }
            _ => {}
        }
    }
    requests
}

/// The names of devices: of the state dump, else their numbers.
fn name_of(events: &[Event], device: i64) -> String {
    let mut dumped = events.iter().filter(|event| event.is("lttng_statedump_block_device"));
    match dumped.find(|event| event.number("dev") == device) {
        Some(event) => event.text("diskname").to_owned(),
        None => format!("({},{})", device >> 20, device & 0xf_ffff),
    }
}

/// Number, sectors, least, sum, most of a device's requests.
type Figures = (i64, i64, i64, i64, i64);

pub(crate) fn check(compared: &Compared) {
    let rule = requests(&compared.events);
    let mut by_device = BTreeMap::<String, Vec<Request>>::new();
    for request in &rule.all {
        by_device
            .entry(name_of(&compared.events, request.device))
            .or_default()
            .push(*request);
    }
    let figures = |requests: &Vec<Request>| {
        let ns = || requests.iter().map(|request| request.end_ns - request.begin_ns);
        let sectors = requests.iter().map(|request| request.sectors).sum();
        (
            requests.len() as i64,
            sectors,
            ns().min().unwrap_or(0),
            ns().sum(),
            ns().max().unwrap_or(0),
        )
    };
    let expected: BTreeMap<String, Figures> = by_device
        .iter()
        .map(|(name, all)| (name.clone(), figures(all)))
        .collect();
    let usage = compared.lttng_all("io:runusage_mi");
    let counts = |class| -> BTreeMap<String, i64> {
        let listed = usage.rows(class, "");
        listed
            .iter()
            .map(|row| (row.text(0, "name").to_owned(), row.number(1, "value")))
            .collect()
    };
    let (sectors, requests) = (counts("per-disk-top-sector"), counts("per-disk-top-request"));
    let stats = compared.lttng("io:runstats_mi");
    let theirs: BTreeMap<String, Figures> = stats
        .rows("disk-latency-stats", "")
        .iter()
        .map(|row| {
            let (name, count) = (row.text(0, "name"), row.number(1, "value"));
            assert_eq!(requests[name], count);
            let (least, most) = (row.number(2, "value"), row.number(4, "value"));
            (
                name.to_owned(),
                (count, sectors[name], least, sum(row.fraction(3, "value"), count), most),
            )
        })
        .collect();
    assert_eq!(theirs, expected);
    check_piste(compared, &rule);
}

/// Every request that is timed is the same, but for those that Piste leaves untimed as the events do not tell which one ended. Flushes have no
/// sectors: lttng-analyses leaves them out.
fn check_piste(compared: &Compared, rule: &Requests) {
    let report = compared.piste("iolog");
    let log: Vec<&Value> = rows(&report, "log")
        .iter()
        .filter(|row| !row["device"].is_null())
        .collect();
    let ours: BTreeSet<(i64, i64)> = log
        .iter()
        .filter(|row| row["what"] != "request flush")
        .filter_map(|row| Some((number(&row["begin_ns"]), row["duration_ns"].as_i64()?)))
        .map(|(begin_ns, ns)| (begin_ns, begin_ns + ns))
        .collect();
    let theirs: BTreeSet<(i64, i64)> = rule.all.iter().map(|one| (one.begin_ns, one.end_ns)).collect();
    let unclear: BTreeSet<(i64, i64)> = rule.unclear.iter().map(|one| (one.begin_ns, one.end_ns)).collect();
    let missing: Vec<_> = theirs.difference(&ours).filter(|one| !unclear.contains(*one)).collect();
    assert!(missing.is_empty(), "not timed by Piste: {missing:?}");
    // Of those in parts the last part is the end.
    let ends: BTreeSet<i64> = unclear.iter().map(|one| one.1).collect();
    let completions = compared.events.iter().filter(|event| event.is("block_rq_complete"));
    let parts: BTreeSet<i64> = completions
        .map(|event| event.ns)
        .filter(|ns| !theirs.iter().any(|one| one.1 == *ns))
        .collect();
    for one in ours.difference(&theirs) {
        assert!(
            ends.contains(&one.1) || parts.contains(&one.1),
            "timed by Piste only: {one:?}"
        );
    }

    // Bytes: Piste counts whatever is issued, once, and discards apart.
    let report = compared.piste("iotop");
    let mut issued = BTreeMap::<bool, i64>::new();
    for event in compared
        .events
        .iter()
        .filter(|event| event.name.starts_with("block_rq_"))
    {
        let sign = match event.name.as_str() {
            "block_rq_issue" => 1,
            "block_rq_requeue" => -1,
            _ => continue,
        };
        let what = event.text("rwbs_raw").trim_start_matches('F');
        if what.starts_with(['R', 'W']) {
            *issued.entry(what.starts_with('R')).or_default() += sign * 512 * event.number("nr_sector");
        }
    }
    for (is_read, key) in [(true, "read_bytes"), (false, "written_bytes")] {
        let own: i64 = rows(&report, "devices").iter().map(|row| number(&row[key])).sum();
        assert_eq!(own, issued.get(&is_read).copied().unwrap_or(0), "{report:#}");
    }
    println!(
        "{} requests in both, {} untimed by Piste alone",
        ours.intersection(&theirs).count(),
        theirs.difference(&ours).count()
    );
}

/// Where files are synced, there are requests to compare.
pub(crate) fn check_count(compared: &Compared) {
    let count = requests(&compared.events).all.len();
    assert!(count > 5, "{count} requests");
}

/// Bytes of packets, by interface.
fn packets(events: &[Event], name: &str) -> BTreeMap<String, i64> {
    let mut bytes = BTreeMap::new();
    for event in events.iter().filter(|event| event.is(name)) {
        *bytes.entry(event.text("name").to_owned()).or_default() += event.number("len");
    }
    bytes
}

pub(crate) fn check_network(compared: &Compared, trimmed: &str) {
    let usage = compared.lttng_all("io:runusage_mi");
    let report = compared.piste("nettop");
    let sides = [
        ("[received]", "received_bytes", "net_if_receive_skb"),
        ("[sent]", "sent_bytes", "net_dev_xmit"),
    ];
    for (end, key, event) in sides {
        let expected = packets(&compared.events, event);
        assert!(expected["lo"] > 60_000, "{expected:?}");
        let listed = usage.rows("per-netif-top", end);
        let theirs = listed
            .iter()
            .map(|row| (row.text(0, "name").to_owned(), row.number(1, "value")));
        let theirs: BTreeMap<String, i64> = theirs.filter(|(_, bytes)| *bytes > 0).collect();
        assert_eq!(theirs, expected, "{end}");
        let ours = rows(&report, "interfaces").iter();
        let ours = ours.map(|row| (row["interface"].as_str().expect("a name").to_owned(), number(&row[key])));
        assert_eq!(
            ours.filter(|(_, bytes)| *bytes > 0).collect::<BTreeMap<_, _>>(),
            expected,
            "{key}"
        );
    }
    // As Debian has it, it takes the names of files, too.
    let answer = lttng::try_ask(compared.place, trimmed, "io:runusage_mi", &[]);
    assert!(answer["results"].is_array(), "{answer}");
}
