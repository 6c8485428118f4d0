// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that nobody instrumented, under each preload helper: the helper records what the program did, all of it and once, and
//! the program does what it does without.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use piste_support::trace::Event;
use piste_support::{Compilation, Workplace};

const ALL_HELPERS: [&str; 8] = [
    "--preload",
    "libc",
    "--preload",
    "pthread",
    "--preload",
    "dl",
    "--preload",
    "functions",
];

// ---- libc ----

#[test]
fn each_call_of_the_heap_is_recorded_once_in_all_threads_and_after_fork() {
    let place = Workplace::new();
    let recording = place.record(&["--preload", "libc"], plain(&place, "preload_heap.c"), &["4", "50"]);
    recording.expect_whole();
    let events = recording.trace().events();
    let count = |name: &str, size: u64, rest: &str| {
        let is_meant = |event: &&Event| {
            event.name == format!("lttng_ust_libc:{name}")
                && event.number("size") == size
                && event.fields.contains(rest)
        };
        let of_process = |pid: i32| {
            events
                .iter()
                .filter(|event| event.vpid() == pid)
                .filter(is_meant)
                .count()
        };
        let processes: BTreeSet<i32> = events.iter().filter(is_meant).map(Event::vpid).collect();
        processes.into_iter().map(of_process).collect::<Vec<_>>()
    };
    assert_eq!(count("malloc", 30011, "ptr = 0x"), [1], "of a constructor before main");
    for (name, size, rest) in [
        ("malloc", 30101, "ptr = 0x"),
        ("calloc", 30203, "nmemb = 1,"),
        ("realloc", 30307, "in_ptr = 0x"),
        ("realloc", 30403, "in_ptr = 0x0,"),
        ("memalign", 30509, "alignment = 64,"),
        ("posix_memalign", 30603, "alignment = 128,"),
        ("memalign", 30720, "alignment = 256,"),
        ("memalign", 30803, "alignment = 4096,"),
        ("malloc", 30903, "ptr = 0x"),
    ] {
        assert_eq!(count(name, size, rest), [200, 200], "{name} of {size} bytes");
    }
}

#[test]
fn the_events_of_a_heap_tell_what_lives_in_it() {
    let place = Workplace::new();
    let recording = place.record(&["--preload", "libc"], plain(&place, "preload_heap.c"), &["1", "100"]);
    recording.expect_whole();
    let mut alive = BTreeMap::<(i32, u64), u64>::new();
    for event in recording.trace().events() {
        let mut take = |pointer: u64| {
            let size = event.number("size") * text(&event, "nmemb").map_or(1, |count| count.parse().expect("a count"));
            let before = alive.insert((event.vpid(), pointer), size);
            assert_eq!(before, None, "given out twice: {event:?}");
        };
        match event.name.strip_prefix("lttng_ust_libc:") {
            Some("malloc" | "calloc" | "memalign") => take(address(&event, "ptr")),
            Some("posix_memalign") => take(address(&event, "out_ptr")),
            Some("realloc") => {
                let pointer = address(&event, "ptr");
                alive.remove(&(event.vpid(), address(&event, "in_ptr")));
                alive.insert((event.vpid(), pointer), event.number("size"));
            }
            Some("free") => {
                alive.remove(&(event.vpid(), address(&event, "ptr")));
            }
            _ => {}
        }
    }
    let forgotten: Vec<u64> = alive
        .values()
        .copied()
        .filter(|size| (30000..31000).contains(size))
        .collect();
    assert!(forgotten.is_empty(), "the program frees all it takes: {forgotten:?}");
}

#[test]
fn a_heap_of_another_library_is_recorded_and_what_it_calls_of_itself_is_not() {
    let place = Workplace::new();
    let program = linked_with(&place, "preload_heap_user.c", "preload_allocator.c");
    let recording = place.record(&["--preload", "libc"], program, &[]);
    recording.expect_whole();
    let events = recording.trace().events();
    let count = |name: &str, size: u64| {
        let of_name = events
            .iter()
            .filter(|event| event.name == format!("lttng_ust_libc:{name}"));
        of_name.filter(|event| event.number("size") == size).count()
    };
    assert_eq!((count("calloc", 30203), count("realloc", 30307)), (100, 100));
    assert_eq!((count("malloc", 30203), count("malloc", 30307)), (0, 0));
}

#[test]
fn memory_that_is_taken_while_the_heap_is_looked_for_lives_on() {
    let place = Workplace::new();
    let program = linked_with(&place, "preload_heap_user.c", "preload_dlsym.c");
    place.record(&["--preload", "libc"], program, &[]).expect_whole();
}

// ---- pthread ----

#[test]
fn locks_are_recorded_with_what_they_answered() {
    const TIMED_OUT: &str = "110";
    const BUSY: &str = "16";
    let place = Workplace::new();
    let recording = place.record(
        &["--preload", "pthread"],
        plain(&place, "preload_locks.c"),
        &["4", "100"],
    );
    recording.expect_whole();
    let addresses: Vec<u64> = recording.finished.stdout.split_whitespace().map(hexadecimal).collect();
    let [mutex, held, cond, rwlock] = addresses[..] else {
        panic!("four addresses: {}", recording.finished)
    };
    let events = recording.trace().events();
    // How often a call answered what, of one lock.
    let answers = |name: &str, field: &str, lock: u64| {
        let mut counts = BTreeMap::<String, u64>::new();
        for event in &events {
            if event.name == format!("lttng_ust_pthread:pthread_{name}") && address(event, field) == lock {
                let answer = text(event, "status").unwrap_or("none");
                *counts.entry(answer.to_owned()).or_default() += 1;
            }
        }
        counts.into_iter().collect::<Vec<_>>()
    };
    let all = |count: u64, answer: &str| vec![(answer.to_owned(), count)];

    assert_eq!(answers("mutex_lock_req", "mutex", mutex), all(400, "none"));
    assert_eq!(answers("mutex_lock_acq", "mutex", mutex), all(400, "0"));
    assert_eq!(answers("mutex_unlock", "mutex", mutex), all(400, "0"));
    let requests = answers("mutex_lock_req", "mutex", held)[0].1;
    let acquired = [("0".to_owned(), requests - 2), (TIMED_OUT.to_owned(), 2)];
    assert_eq!(answers("mutex_lock_acq", "mutex", held), acquired);
    let tried = [("0".to_owned(), 1), (BUSY.to_owned(), 1)];
    assert_eq!(answers("mutex_trylock", "mutex", held), tried);
    let of_ours = |event: &&Event| event.name.contains("pthread_mutex_");
    let locked: BTreeSet<u64> = events
        .iter()
        .filter(of_ours)
        .map(|event| address(event, "mutex"))
        .collect();
    assert_eq!(locked, BTreeSet::from([mutex, held]), "nobody else's locks");

    assert_eq!(answers("cond_signal", "cond", cond), all(1, "none"));
    assert_eq!(answers("cond_broadcast", "cond", cond), all(1, "none"));
    let waits = answers("cond_wait_req", "cond", cond)[0].1;
    let ends = answers("cond_wait_end", "cond", cond);
    assert_eq!(ends.last(), Some(&(TIMED_OUT.to_owned(), 2)));
    let ended: u64 = ends.iter().map(|(_, count)| count).sum();
    assert_eq!(waits, ended + 1, "one wait is cancelled");

    assert_eq!(answers("rwlock_rdlock_req", "rwlock", rwlock), all(403, "none"));
    assert_eq!(answers("rwlock_rdlock_acq", "rwlock", rwlock), all(403, "0"));
    assert_eq!(answers("rwlock_wrlock_req", "rwlock", rwlock), all(402, "none"));
    let acquired = [("0".to_owned(), 400), (TIMED_OUT.to_owned(), 2)];
    assert_eq!(answers("rwlock_wrlock_acq", "rwlock", rwlock), acquired);
    assert_eq!(answers("rwlock_tryrdlock", "rwlock", rwlock), all(1, "0"));
    assert_eq!(answers("rwlock_trywrlock", "rwlock", rwlock), all(1, BUSY));
    assert_eq!(answers("rwlock_unlock", "rwlock", rwlock), all(804, "0"));
}

// ---- dl ----

#[test]
fn libraries_come_and_go_with_those_that_they_need() {
    let place = Workplace::new();
    let (program, needed) = loads_libraries(&place);
    let needed_path = needed.to_str().expect("a plain path");
    let arguments = ["3", "libpreload_named.so", needed_path];
    let recording = place.record(&["--preload", "dl"], &program, &arguments);
    recording.expect_whole();
    let unrecorded = place.run(&program, &arguments);
    assert_eq!(
        recording.finished.stdout,
        unrecorded.expect_success().stdout,
        "the linker's error"
    );

    let events = recording.trace().events();
    let ours = |event: &&Event| event.fields.contains("/away/");
    let count = |name: &str, part: &str| {
        let of_name = events.iter().filter(ours).filter(|event| event.name == name);
        of_name.filter(|event| event.fields.contains(part)).count()
    };
    assert_eq!(count("lttng_ust_dl:dlopen", "libpreload_named.so"), 3);
    assert_eq!(count("lttng_ust_dl:dlopen", "libneeded.so"), 3);
    assert_eq!(count("lttng_ust_dl:dlmopen", "nsid = 1, "), 1);
    assert_eq!(count("lttng_ust_lib:load", "libpreload_named.so"), 3);
    assert_eq!(
        count("lttng_ust_lib:load", "libneeded.so"),
        6,
        "with the other library, and alone"
    );
    assert_eq!(count("lttng_ust_lib:load", "has_build_id = 1"), 9);

    let mut loaded = BTreeSet::new();
    for event in &events {
        match &*event.name {
            "lttng_ust_lib:load" => assert!(loaded.insert(address(event, "baddr")), "twice: {event:?}"),
            "lttng_ust_lib:unload" => assert!(loaded.remove(&address(event, "baddr")), "not loaded: {event:?}"),
            "lttng_ust_dl:dlopen" if ours(&event) => {
                assert!(loaded.contains(&address(event, "baddr")), "before its load: {event:?}");
            }
            _ => {}
        }
    }
    assert_eq!(loaded, BTreeSet::new(), "all is unloaded");
    let opened = events
        .iter()
        .filter(|event| event.name == "lttng_ust_dl:build_id")
        .count();
    assert_eq!(opened, 8, "of six dlopen, one dlmopen and the program itself");
}

/// preload_libraries.c, which finds a library by its own DT_RUNPATH, and the path of the library that this one needs.
fn loads_libraries(place: &Workplace) -> (PathBuf, PathBuf) {
    std::fs::create_dir(place.path("away")).expect("the folder is new");
    let library = || uninstrumented("preload_library.c").shared().with("-Wl,--build-id");
    let needed = place.compile(&library(), "away/libneeded.so");
    place.compile(
        &library()
            .with("-Wl,--no-as-needed")
            .with(&needed)
            .with("-Wl,-rpath,$ORIGIN"),
        "away/libpreload_named.so",
    );
    let program = uninstrumented("preload_libraries.c").with("-Wl,--enable-new-dtags,-rpath,$ORIGIN/away");
    (place.compile(&program, "preload_libraries"), needed)
}

// ---- functions ----

#[test]
fn functions_are_recorded_where_they_begin_and_end() {
    let place = Workplace::new();
    let program = place.compile(
        &uninstrumented("preload_functions.c").with("-finstrument-functions"),
        "preload_functions",
    );
    let recording = place.record(&["--preload", "functions"], program, &["1000"]);
    recording.expect_whole();
    let function = hexadecimal(recording.finished.stdout.trim());
    let events = recording.trace().events();
    let count = |name: &str| {
        let of_name = events.iter().filter(|event| event.name == name);
        of_name.filter(|event| address(event, "addr") == function).count()
    };
    assert_eq!(count("lttng_ust_cyg_profile:func_entry"), 1000);
    assert_eq!(count("lttng_ust_cyg_profile:func_exit"), 1000);
    let mut depth = 0;
    for event in events
        .iter()
        .filter(|event| event.name.starts_with("lttng_ust_cyg_profile:"))
    {
        assert_eq!(event.level, "DEBUG_FUNCTION (12)");
        depth += if event.name.ends_with("entry") { 1 } else { -1 };
        assert!((0..=2).contains(&depth), "main and the function: {event:?}");
    }
    assert_eq!(depth, 0);
}

// ---- All of them, and real programs ----

#[test]
fn python_does_the_same_under_all_helpers() {
    does_the_same(
        "python3",
        &[
            "-c",
            "import ctypes, json, os, sqlite3, subprocess, sys, threading\n\
             results, lock = [], threading.Lock()\n\
             def work(number):\n\
             \x20   for turn in range(200):\n\
             \x20       with lock: results.append(json.dumps({str(turn): [number] * 10}))\n\
             threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]\n\
             [thread.start() for thread in threads]\n\
             for turn in range(3):\n\
             \x20   child = os.fork()\n\
             \x20   if child == 0: os._exit(len([str(number) for number in range(1000)]) % 7)\n\
             \x20   print(os.waitpid(child, 0)[1])\n\
             [thread.join() for thread in threads]\n\
             print(len(results), sum(map(len, results)))\n\
             print(subprocess.run(['echo', 'a', 'child'], capture_output=True).stdout)\n\
             print(sqlite3.connect(':memory:').execute('select 6 * 7').fetchone())\n\
             sys.exit(5)",
        ],
    );
}

#[test]
fn a_shell_does_the_same_under_all_helpers() {
    does_the_same(
        "bash",
        &[
            "-c",
            "for turn in 1 2 3 4 5; do echo $turn | sed s/1/one/; done; (echo a subshell) & wait; \
             cat <(echo substituted) | sort; (kill -SEGV $BASHPID); echo $?; exit 4",
        ],
    );
}

#[test]
fn a_compiler_does_the_same_under_all_helpers() {
    let source = piste_support::build_tree::programs().join("preload_functions.c");
    let line = format!("cc -O2 -S -o - '{}' | md5sum", source.display());
    does_the_same("sh", &["-c", &line]);
}

/// Same output and exit status, recorded and not.
fn does_the_same(program: &str, arguments: &[&str]) {
    let place = Workplace::new();
    let unrecorded = place.run(program, arguments);
    let recording = place.record(&ALL_HELPERS, program, arguments);
    assert_eq!(recording.finished.stdout, unrecorded.stdout, "{}", recording.finished);
    assert_eq!(recording.finished.status, unrecorded.status, "{}", recording.finished);
    assert!(recording.events() > 0);
}

// ---- Programs without libpiste ----

fn uninstrumented(source: &str) -> Compilation {
    Compilation::of(&[source]).with("-Wl,--as-needed")
}

fn plain(place: &Workplace, source: &str) -> PathBuf {
    place.compile(&uninstrumented(source), "program")
}

/// The program, and before the C library the library.
fn linked_with(place: &Workplace, program: &str, library: &str) -> PathBuf {
    let name = Path::new(library).with_extension("so");
    let library = place.compile(&uninstrumented(library).shared(), name.to_str().expect("a plain name"));
    let program = uninstrumented(program).with("-Wl,--no-as-needed").with(library);
    place.compile(&program.with("-Wl,--as-needed"), "program")
}

// ---- Fields ----

fn address(event: &Event, field: &str) -> u64 {
    hexadecimal(text(event, field).unwrap_or_else(|| panic!("no {field:?} in {event:?}")))
}

/// A number as babeltrace2 prints it.
fn text<'event>(event: &'event Event, field: &str) -> Option<&'event str> {
    event.fields.split([' ', ',']).skip_while(|&word| word != field).nth(2)
}

fn hexadecimal(text: &str) -> u64 {
    let digits = text
        .strip_prefix("0x")
        .unwrap_or_else(|| panic!("no address: {text:?}"));
    u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}
