// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is drawn is true: at every zoom, a thread's states and calls are what `piste query` answers.

use piste_support::kernel::KernelSession;
use piste_support::process::{send, stop};

use super::*;

/// A part of what a thread did, as `piste query` says.
struct State {
    begin_ns: i64,
    end_ns: i64,
    class: &'static str,
}

/// By thread id: its rows, whose columns after the first four (thread, tid, begin and end) are of what class it was. Only of those whose id no other
/// thread has. There are many rows: text is read much sooner than JSON.
fn queried(
    place: &Workplace,
    trace: &Path,
    sql: &str,
    class: impl Fn(&[&str]) -> Option<&'static str>,
) -> BTreeMap<i64, Vec<State>> {
    let answer = place.piste(&["query", text(trace), sql, "--format", "csv"]);
    answer.expect_success();
    let mut threads: BTreeMap<i64, BTreeMap<i64, Vec<State>>> = BTreeMap::new();
    for row in answer.stdout.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let number = |column: usize| -> i64 { cells[column].parse().unwrap_or_else(|error| panic!("{error}: {row}")) };
        let of_tid = threads.entry(number(1)).or_default();
        let of_thread = of_tid.entry(number(0)).or_default();
        of_thread.extend(class(&cells[4..]).map(|class| State {
            begin_ns: number(2),
            end_ns: number(3),
            class,
        }));
    }
    let single = threads.into_iter().filter(|(_, threads)| threads.len() == 1);
    single
        .map(|(tid, threads)| (tid, threads.into_values().flatten().collect()))
        .collect()
}

fn queried_states(place: &Workplace, trace: &Path) -> BTreeMap<i64, Vec<State>> {
    let sql = "SELECT thread, tid, begin_ns, end_ns, state, mode FROM thread_states WHERE tid <> 0";
    let known = |name: &str| {
        let class = CLASSES.into_iter().find(|class| *class == name);
        Some(class.unwrap_or_else(|| panic!("{name}")))
    };
    // A column without a value is empty.
    queried(place, trace, sql, |row| match row {
        ["absent", _] => None,
        ["", _] => Some("unknown"),
        ["running", mode] if !mode.is_empty() => known(mode),
        [state, _] => known(state),
        _ => panic!("{row:?}"),
    })
}

/// Of system calls, those whose begin and end the trace has.
fn queried_calls(place: &Workplace, trace: &Path) -> BTreeMap<i64, Vec<State>> {
    let sql = "SELECT thread, tid, begin_ns, end_ns FROM syscalls WHERE begin_ns IS NOT NULL AND end_ns IS NOT NULL";
    queried(place, trace, sql, |_| Some("other"))
}

fn summed(states: &[State], (begin_ns, end_ns): (i64, i64)) -> BTreeMap<String, i64> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for state in states {
        let ns = state.end_ns.min(end_ns) - state.begin_ns.max(begin_ns);
        if ns > 0 {
            *sums.entry(state.class).or_default() += ns;
        }
    }
    sums.into_iter().map(|(class, ns)| (class.to_owned(), ns)).collect()
}

/// How many of them begin in a range.
fn begun(states: &[State], (begin_ns, end_ns): (i64, i64)) -> usize {
    let begins = states.iter().map(|state| state.begin_ns);
    begins.filter(|begin| (begin_ns..end_ns).contains(begin)).count()
}

/// Compares random ranges of random lanes; returns how many columns it compared.
fn compare(place: &Workplace, trace: &Path, random: &mut Random) -> usize {
    let (states, calls) = (queried_states(place, trace), queried_calls(place, trace));
    let server = Server::start(place, &[text(trace)]);
    let status = server.settle();
    let whole = (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]));
    let listed = server.json("GET", "lanes", "").expect("lanes");
    let all = listed["lanes"].as_array().expect("lanes");
    let tids: BTreeMap<u64, i64> = all
        .iter()
        .filter_map(|lane| Some((lane["id"].as_u64()?, lane["tid"].as_i64()?)))
        .collect();
    // Calls are beside the lane of their thread.
    let lanes = |kind: &str, thread: &str, rows: &BTreeMap<i64, Vec<State>>| -> Vec<(u64, i64)> {
        all.iter()
            .filter(|lane| lane["kind"] == kind)
            .filter_map(|lane| Some((lane["id"].as_u64()?, *tids.get(&lane[thread].as_u64()?)?)))
            .filter(|(_, tid)| rows.contains_key(tid))
            .collect()
    };
    let mut compared = 0;
    for (kind, thread, rows, pairs) in [("thread", "id", &states, 140), ("calls", "of", &calls, 60)] {
        let lanes = lanes(kind, thread, rows);
        assert!(lanes.len() > 3, "{kind}: {} of {}", lanes.len(), all.len());
        let busiest = lanes
            .iter()
            .max_by_key(|(_, tid)| rows[tid].len())
            .expect("there are some");
        for number in 0..pairs {
            let (lane, tid) = lanes[random.below(lanes.len() as u64) as usize];
            let width = (whole.1 - whole.0) >> random.below(16);
            let begin = whole.0 + random.below((whole.1 - whole.0) as u64) as i64;
            // One that surely has too many pieces to be drawn one by one.
            let (lane, tid, range) = match number {
                0 => (busiest.0, busiest.1, whole),
                _ => (lane, tid, (begin, begin + width.max(1))),
            };
            let states = &rows[&tid];
            let answer = server.sum(lane, range);
            assert_eq!(by_class(&answer), summed(states, range), "{kind} {tid}, {range:?}");
            if kind == "calls" {
                assert_eq!(answer["pieces"], begun(states, range), "{kind} {tid}, {range:?}");
            }
            let count = 2 + random.below(39) as usize;
            let columns = server.columns(lane, range, count);
            compared += columns.map_or(0, |columns| compare_columns(&columns, states, range));
        }
    }
    server.end();
    compared
}

/// Columns together are a range.
fn compare_columns(columns: &[Column], states: &[State], range: (i64, i64)) -> usize {
    let count = columns.len();
    for (index, column) in columns.iter().enumerate() {
        let at = |index: usize| range.0 + (i128::from(range.1 - range.0) * index as i128 / count as i128) as i64;
        let part = (at(index), at(index + 1));
        let expected = summed(states, part);
        let drawn: BTreeSet<&str> = column.shares.keys().map(|class| CLASSES[*class as usize]).collect();
        assert_eq!(drawn, expected.keys().map(String::as_str).collect(), "{part:?}");
        for (class, share) in &column.shares {
            let ns = expected[CLASSES[*class as usize]] as f64;
            let width = (range.1 - range.0) as f64 / count as f64;
            assert!(
                (share - ns / width).abs() <= 1.0 / 255.0 + 1.0 / width,
                "{class}: {share}, {ns} of {width}"
            );
        }
    }
    count
}

/// The largest stream has lost a packet in the middle.
fn copy_without_a_packet(trace: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").args([trace, to])).expect_success();
    fs::remove_file(to.join(".piste-timeline")).expect("it was made");
    let files = fs::read_dir(to.join("kernel"))
        .expect("a trace of the kernel")
        .flatten();
    let streams = files.filter(|file| file.file_name().to_string_lossy().starts_with("kernel_"));
    let largest = streams.max_by_key(|file| file.metadata().map_or(0, |about| about.len()));
    let path = largest.expect("it has streams").path();
    let mut bytes = fs::read(&path).expect("it can be read");
    let magic = 0xc1fc_1fc1_u32.to_le_bytes();
    let starts = bytes.windows(4).enumerate().filter(|(_, word)| *word == magic);
    let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
    assert!(starts.len() > 4, "the trace is too small");
    bytes.drain(starts[starts.len() / 2]..starts[starts.len() / 2 + 1]);
    fs::write(&path, bytes).expect("it can be written");
}

#[test]
fn what_is_drawn_is_what_queries_answer() {
    let Some((_kept, of_program)) = recorded() else { return };
    let Some(place) = kernel::workplace() else { return };
    let python = ["-c", PROGRAM];
    let of_all = place.record_with_kernel(&["--no-user", "-a"], "python3", &python);
    of_all.finished.expect_success();
    // Nobody empties small rings for a while.
    let session = KernelSession::create(&place, &["--subbuf-size", "4K", "--num-subbuf", "2"]);
    session.enable(&["--preset", "sched,syscalls"]).start();
    let run_program = || _ = run(place.command("python3").args(python)).expect_success();
    run_program();
    let consumer = place.kernel_consumer();
    stop(consumer);
    run_program();
    send(consumer, Signal::CONT);
    run_program();
    let (channel, with_losses) = session.end();
    assert!(channel["discarded_events"].as_u64() > Some(0), "{channel:#}");
    place.let_others_record();
    let of_all = of_all.trace();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut compared = 0;
    for trace in [&of_program, of_all.path(), with_losses.path()] {
        compared += compare(&place, trace, &mut random);
    }
    let cut = place.path("cut");
    let range = ["--begin", "+0.1s", "--end", "+0.4s"];
    place.piste_succeeds(&[&["trim", text(of_all.path()), "-o", text(&cut)][..], &range].concat());
    compared += compare(&place, &cut, &mut random);
    let damaged = place.path("damaged");
    copy_without_a_packet(of_all.path(), &damaged);
    compared += compare(&place, &damaged, &mut random);
    assert!(compared >= 10, "{compared} columns");
}
