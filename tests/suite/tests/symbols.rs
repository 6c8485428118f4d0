// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the addresses in events (`--symbols`): of programs and libraries, of the kernel, of code that was made at run time; and that nothing
//! is named after a file that is another one by now, or that somebody else put there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::build_tree::binary;
use piste_support::process::{self, Finished, wait_until};
use piste_support::report::{number, record_whole, text};
use piste_support::{Compilation, Workplace, kernel, users};
use serde_json::Value;

const NOBODY: u32 = 65534;
const ENTRY: &str = "lttng_ust_cyg_profile:func_entry";

/// Compiles a program whose functions are recorded.
fn instrumented(place: &Workplace, name: &str) -> PathBuf {
    let compilation = Compilation::of(&["preload_functions.c"]).with("-finstrument-functions");
    place.compile(&compilation, name)
}

/// Records a call of `twice` and `main`.
fn record_functions(place: &Workplace, program: &Path) -> String {
    let recording = place.record(&["--preload", "functions"], program, &["1"]);
    text(recording.expect_whole().trace().path()).to_owned()
}

/// Text without what stands in angle brackets.
fn without_names(text: &str) -> String {
    let mut parts = text.split(" <");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    let mut open = 0;
    for part in parts {
        open += 1;
        let mut before = ' ';
        for (at, character) in part.char_indices() {
            match character {
                '<' => open += 1,
                // Names of Rust may have brackets and arrows.
                '>' if before != '-' => open -= 1,
                _ => {}
            }
            before = character;
            if open == 0 {
                rest += &part[at + 1..];
                break;
            }
        }
    }
    assert_eq!(open, 0, "a name ends");
    rest
}

fn view(place: &Workplace, trace: &str, options: &[&str]) -> Finished {
    place.piste(&[&["view", "--symbols", trace], options].concat())
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

// ---- programs ----

#[test]
fn functions_of_programs_and_libraries_are_named_in_every_form() {
    let place = Workplace::new();
    let program = instrumented(&place, "caller");
    let trace = record_functions(&place, &program);
    let named = view(&place, &trace, &["--event", ENTRY]);
    named.expect_success();
    assert!(named.stdout.contains(" <main>, call_site = 0x"), "{named}");
    assert!(named.stdout.contains(" <twice>, call_site = 0x"), "{named}");
    assert!(named.stdout.contains(" <main+0x"), "{named}");
    let whole = view(&place, &trace, &[]);
    assert_eq!(without_names(&whole.stdout), place.piste_succeeds(&["view", &trace]));

    let of_json = objects(&place.piste_succeeds(&["--json", "view", "--symbols", &trace, "--event", ENTRY]));
    let addresses: Vec<&Value> = of_json.iter().map(|event| &event["payload"]["addr"]).collect();
    let symbols: Vec<&Value> = addresses.iter().map(|address| &address["symbol"]).collect();
    assert_eq!(symbols, ["main", "twice"]);
    let plain = objects(&place.piste_succeeds(&["--json", "view", &trace, "--event", ENTRY]));
    assert_eq!(addresses[1]["value"], plain[1]["payload"]["addr"]);
    let fields = ["--event", ENTRY, "--fields", "addr,call_site", "--format"];
    let csv = view(&place, &trace, &[&fields[..], &["csv"]].concat()).stdout;
    assert!(
        csv.lines().nth(2).is_some_and(|row| row.contains(",twice,main+0x")),
        "{csv}"
    );
    let rows = view(&place, &trace, &[&fields[..], &["ndjson"]].concat()).stdout;
    assert_eq!(objects(&rows)[1]["addr"], *addresses[1]);

    let export = |format: &str| {
        let output = place.path(format);
        place.piste_succeeds(&["export", "--symbols", &trace, "--format", format, "-o", text(&output)]);
        fs::read(output).expect("it was written")
    };
    let document: Value = serde_json::from_slice(&export("json")).expect("JSON");
    let events = document["events"].as_array().expect("events");
    assert!(events.iter().any(|event| event["payload"]["addr"]["symbol"] == "twice"));
    let chrome: Value = serde_json::from_slice(&export("chrome")).expect("JSON");
    let slices = chrome["traceEvents"].as_array().expect("events");
    let slice = slices
        .iter()
        .find(|event| event["ph"] == "B" && event["name"] == "twice")
        .expect("a slice");
    let argument = format!("{:#x} twice", number(&addresses[1]["value"]));
    assert_eq!(slice["args"]["addr"], argument.as_str());
    let perfetto = String::from_utf8_lossy(&export("perfetto")).into_owned();
    assert!(perfetto.contains(&argument));
}

#[test]
fn sql_and_parquet_have_names_in_a_column_beside_each_address() {
    let place = Workplace::new();
    let trace = record_functions(&place, &instrumented(&place, "caller"));
    let sql = format!("SELECT addr, addr_symbol, call_site_symbol FROM events WHERE name = '{ENTRY}' ORDER BY time");
    let query = |options: &[&str], sql: &str| place.piste_json(&[&["query"], options, &[&trace, sql]].concat());
    let rows = query(&["--symbols"], &sql);
    assert_eq!(rows[0]["addr_symbol"], "main");
    assert_eq!(rows[1]["addr_symbol"], "twice");
    assert!(
        rows[1]["call_site_symbol"]
            .as_str()
            .is_some_and(|name| name.starts_with("main+0x")),
        "{rows}"
    );
    let grouped = query(
        &["--symbols"],
        "SELECT addr_symbol, count(*) AS n FROM events WHERE addr_symbol IS NOT NULL GROUP BY 1 ORDER BY 1",
    );
    assert_eq!(
        (&grouped[1]["addr_symbol"], &grouped[1]["n"]),
        (&"twice".into(), &2.into()),
        "{grouped}"
    );
    // Without the option, there is no such column.
    place.piste(&["query", &trace, &sql]).expect_status(2);
    let all = query(&[], &format!("SELECT * FROM \"{ENTRY}\""));
    assert!(!all.to_string().contains("symbol"), "{all}");

    let parquet = |options: &[&str], folder: &Path| {
        let arguments = ["export", "--format", "parquet", &trace, "-o", text(folder)];
        place.piste_succeeds(&[&arguments[..], options].concat());
        let part = folder.join("name=lttng_ust_cyg_profile%3Afunc_entry/part-0.parquet");
        fs::read(part).expect("it was written")
    };
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let (with, without) = (
        parquet(&["--symbols"], &place.path("with")),
        parquet(&[], &place.path("without")),
    );
    assert!(has(&with, "addr_symbol") && !has(&without, "addr_symbol"));
}

#[test]
fn a_program_that_was_built_again_gives_no_names() {
    let place = Workplace::new();
    let program = instrumented(&place, "caller");
    let trace = record_functions(&place, &program);
    let compilation = Compilation::of(&["preload_functions.c"])
        .with("-finstrument-functions")
        .with("-O0");
    place.compile(&compilation, "caller");
    let named = view(&place, &trace, &["--event", ENTRY]);
    named.expect_success();
    assert!(
        !named.stdout.contains("<twice") && !named.stdout.contains("<main"),
        "{named}"
    );
    let note = format!("because the files are gone or have changed: {}", program.display());
    assert_eq!(named.stderr.matches(&note).count(), 1, "{named}");
}

/// Takes the names out of a program, into a file of its own.
fn strip(place: &Workplace, program: &Path) -> PathBuf {
    let names = program.with_extension("debug");
    for (tool, arguments) in [
        ("objcopy", &["--only-keep-debug", text(program), text(&names)][..]),
        ("strip", &[text(program)]),
    ] {
        place.run(tool, arguments).expect_success();
    }
    names
}

#[test]
fn a_stripped_program_has_the_names_of_its_debug_file() {
    let place = Workplace::new();
    let program = instrumented(&place, "caller");
    let names = strip(&place, &program);
    let link = format!("--add-gnu-debuglink={}", names.display());
    place.run("objcopy", &[&link, text(&program)]).expect_success();
    let trace = record_functions(&place, &program);
    let twice = |place: &Workplace| view(place, &trace, &["--event", ENTRY]).stdout.contains("<twice>");
    assert!(twice(&place));
    fs::remove_file(names).expect("it is there");
    assert!(!twice(&place));
}

#[test]
fn debuginfod_is_asked_only_if_that_is_wanted() {
    let place = Workplace::new();
    let program = instrumented(&place, "caller");
    let names = strip(&place, &program);
    let hidden = place.path("server");
    fs::rename(names, &hidden).expect("it is there");
    let trace = record_functions(&place, &program);
    let (bin, asked) = (place.path("fake"), place.path("asked"));
    fs::create_dir(&bin).expect("a folder can be made there");
    let become_finder = |script: &str| {
        let finder = bin.join("debuginfod-find");
        fs::write(
            &finder,
            format!("#!/bin/sh\necho \"$@\" >>{}\n{script}\n", asked.display()),
        )
        .expect("a file");
        fs::set_permissions(finder, Permissions::from_mode(0o755)).expect("it is ours");
    };
    let found = format!("case $1 in debuginfo) echo {};; *) exit 1;; esac", hidden.display());
    become_finder(&found);
    let view = |options: &[&str], path: &str, urls: &str| {
        let mut command = place.command(binary("piste"));
        command
            .args(["view", "--symbols", &trace, "--event", ENTRY])
            .args(options);
        process::run(command.env("PATH", path).env("DEBUGINFOD_URLS", urls))
    };
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let url = "http://127.0.0.1:1/";
    let plain = view(&[], &path, url);
    assert!(!plain.stdout.contains("<twice>") && !asked.exists(), "{plain}");

    let named = view(&["--debuginfod"], &path, url);
    assert!(named.stdout.contains("<twice>"), "{named}");
    let build_id = fs::read_to_string(&asked).expect("it was asked");
    assert!(
        build_id.starts_with("debuginfo ") && build_id.lines().count() == 1,
        "{build_id}"
    );

    // A file of another program is not used.
    become_finder("echo /bin/sh");
    assert!(!view(&["--debuginfod"], &path, url).stdout.contains("<twice>"));
    for (script, path, urls, why) in [
        ("exit 1", "/nowhere", url, "debuginfod-find is not installed"),
        ("exit 1", &path, "", "DEBUGINFOD_URLS is not set"),
        (
            "echo 'Server query failed: Connection refused' >&2; exit 1",
            &path,
            url,
            "Connection refused",
        ),
    ] {
        become_finder(script);
        let failed = view(&["--debuginfod"], path, urls);
        failed.expect_success();
        assert!(
            failed.stderr.contains(why) && !failed.stdout.contains("<twice>"),
            "{failed}"
        );
    }
    become_finder("echo 'Server query failed: No such file or directory' >&2; exit 1");
    let absent = view(&["--debuginfod"], &path, url);
    assert!(absent.stderr.is_empty(), "{absent}");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let place = Workplace::new();
    let trace = record_functions(&place, &instrumented(&place, "caller"));
    for arguments in [
        &["view", "--debuginfod", &trace][..],
        &["view", "--symbols", "--follow", &trace],
        &["view", "--symbols", "--format", "strace", &trace],
        &["export", "--symbols", "--format", "ctf2", "-o", "out", &trace],
    ] {
        place.piste(arguments).expect_status(2);
    }
}

// ---- the kernel, and who waits for locks ----

#[test]
fn addresses_in_events_of_the_kernel_are_named() {
    let Some(place) = kernel::workplace() else { return };
    let compilation = Compilation::of(&["convoy.c"]).with("-fno-omit-frame-pointer");
    let convoy = place.compile(&compilation, "convoy");
    let options = [
        "--preset",
        "sched,syscalls",
        "-k",
        "timer:hrtimer_expire_entry",
        "-k",
        "sched_switch",
        "--callstack",
        "kernel,user",
    ];
    let (trace, _) = record_whole(&place, &options, &[text(&convoy)]);
    place.let_others_record();
    let futexes = view(&place, &trace, &["--event", "syscall_entry_futex", "--comm", "convoy"]);
    futexes.expect_success();
    assert!(futexes.stdout.contains(" <till_lock>, op = "), "{futexes}");
    let timers = view(&place, &trace, &["--event", "timer_hrtimer_expire_entry"]);
    let is_function = |line: &str| line.contains("function = 0x") && line.contains(" <") && line.contains(">, ip = ");
    assert!(timers.stdout.lines().all(is_function), "{timers}");
    let switches = objects(&place.piste_succeeds(&["--json", "view", "--symbols", &trace, "--event", "sched_switch"]));
    let has = |field: &str, name: &str| {
        let frames = switches
            .iter()
            .filter_map(|event| event["payload"][field].as_array())
            .flatten();
        let mut symbols = frames.filter_map(|frame| frame["symbol"].as_str());
        symbols.any(|symbol| symbol.starts_with(name))
    };
    assert!(has("callstack_kernel", "__schedule+0x"));
    assert!(has("callstack_user", "sell+0x") || has("callstack_user", "serve+0x"));
    // What has no name is a number still, and nothing else is another. Command lines in the state dump may have any brackets.
    let events = ["--filter", "!(name =~ \"lttng_statedump_*\")"];
    let named = view(&place, &trace, &events);
    named.expect_success();
    assert_eq!(
        without_names(&named.stdout),
        place.piste_succeeds(&[&["view", &trace][..], &events].concat())
    );

    let query = |sql: &str| place.piste_json(&["query", "--symbols", &trace, sql]);
    let locks =
        query("SELECT uaddr_symbol AS lock, count(*) AS n FROM syscall_entry_futex GROUP BY 1 ORDER BY 2 DESC LIMIT 1");
    assert_eq!(locks[0]["lock"], "till_lock");
    let stacks = query(
        "SELECT count(*) AS n FROM sched_switch WHERE array_has(callstack_kernel_symbol, 'no') \
         OR array_length(callstack_kernel) <> array_length(callstack_kernel_symbol)",
    );
    assert_eq!(stacks[0]["n"], 0);
    let schedule = query(
        "SELECT callstack_kernel_symbol AS stack FROM sched_switch WHERE array_length(callstack_kernel) > 4 LIMIT 1",
    );
    assert!(schedule[0]["stack"].to_string().contains("__schedule+0x"), "{schedule}");

    // After another boot, the kernel's addresses are others: the names are those in the recording.
    become_of_another_boot(&trace);
    let events = ["--event", "timer_hrtimer_expire_entry,syscall_entry_futex,sched_switch"];
    let other = view(&place, &trace, &events);
    assert!(other.stdout.contains(" <hrtimer_wakeup>"), "{other}");
    assert!(
        other.stdout.contains("<__schedule+0x") && !other.stderr.contains("have no names"),
        "{other}"
    );
    // So are those of a copy, of locks too.
    let part = text(&place.path("copy")).to_owned();
    place.piste_succeeds(&["trim", &trace, "-o", &part]);
    let part = view(&place, &part, &events);
    assert_eq!(part.stdout, other.stdout);
    assert!(!part.stderr.contains("have no names"), "{part}");

    let list = Path::new(&trace).join("kallsyms.gz");
    let packed = fs::read(&list).expect("recordings with stacks of the kernel have it");

    // Half of a file, or none.
    fs::write(&list, &packed[..packed.len() / 2]).expect("it is ours");
    let half = view(&place, &trace, &events);
    assert!(
        half.stderr.contains("cannot read all of ") && half.stderr.contains("kallsyms.gz"),
        "{half}"
    );
    fs::remove_file(&list).expect("it is ours");
    let none = view(&place, &trace, &events);
    let note = "addresses of the kernel have no names: the trace is from another boot";
    assert!(
        none.stderr.contains(note) && !none.stdout.contains(" <hrtimer"),
        "{none}"
    );
    // The files of programs are the same.
    assert!(none.stdout.contains(" <till_lock>"), "{none}");
}

/// Changes what a trace says about the machine's boot.
fn become_of_another_boot(trace: &str) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the kernel has it");
    for domain in ["kernel", "user"] {
        let metadata = Path::new(trace).join(domain).join("metadata");
        if let Ok(text) = fs::read_to_string(&metadata) {
            let other = text.replace(boot.trim(), "01234567-89ab-4def-8123-456789abcdef");
            assert_ne!(text, other);
            fs::write(metadata, other).expect("it is ours");
        }
    }
}

#[test]
fn each_part_of_a_recording_with_stacks_has_the_kernels_symbols() {
    let Some(place) = kernel::workplace() else { return };
    let output = place.path("parts");
    let piste = |arguments: &[&str]| place.piste_succeeds(arguments);
    piste(&["create", "parts", "-o", text(&output)]);
    piste(&["enable-event", "-k", "sched_switch"]);
    piste(&["start"]);
    let listed = |folder: &Path| folder.join("kallsyms.gz").exists();
    // Nothing needs them yet.
    piste(&["rotate"]);
    piste(&["enable-event", "-k", "sched_wakeup", "--callstack", "kernel"]);
    wait_until("the symbols are written", || listed(&output));
    piste(&["rotate"]);
    wait_until("those of the next chunk are", || listed(&output));
    piste(&["destroy"]);
    place.let_others_record();
    let archives = output.join("archives");
    let mut chunks: Vec<PathBuf> = fs::read_dir(&archives)
        .expect("there are chunks")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    chunks.sort();
    // The last one stays in the folder.
    let chunks: Vec<bool> = chunks.iter().chain([&output]).map(|chunk| listed(chunk)).collect();
    assert_eq!(chunks, [false, true, true], "{}", output.display());
}

#[test]
fn a_snapshot_with_stacks_has_the_kernels_symbols() {
    let Some(place) = kernel::workplace() else { return };
    let output = place.path("moments");
    let piste = |arguments: &[&str]| place.piste_succeeds(arguments);
    piste(&["create", "moments", "--snapshot", "-o", text(&output)]);
    piste(&["enable-event", "-k", "sched_switch", "--callstack", "kernel"]);
    piste(&["start"]);
    piste(&["snapshot", "record"]);
    piste(&["destroy"]);
    place.let_others_record();
    let snapshot = fs::read_dir(&output).expect("there is a snapshot").next();
    let snapshot = snapshot.expect("there is a snapshot").expect("it can be read").path();
    become_of_another_boot(text(&snapshot));
    let switches = view(&place, text(&snapshot), &["--event", "sched_switch"]);
    switches.expect_success();
    assert!(switches.stdout.contains("<__schedule+0x"), "{switches}");
}

// ---- code that was made at run time ----

/// A recording of generated.c, and the file in which its function has a name, which is removed with it.
struct Generated {
    trace: String,
    function: u64,
    map: PathBuf,
}

impl Drop for Generated {
    fn drop(&mut self) {
        // A test may have removed it.
        let _ = fs::remove_file(&self.map);
    }
}

impl Generated {
    /// Of a command that runs generated.c.
    fn record_command(place: &Workplace, options: &[&str], command: &[&str]) -> Generated {
        let options = [&["-u", "generated:*"], options].concat();
        let recording = place.record_with_kernel(&options, command[0], &command[1..]);
        recording.finished.expect_success();
        let words: Vec<&str> = recording.finished.stdout.split_whitespace().collect();
        let [pid, function] = words[..] else {
            panic!("{words:?}")
        };
        Generated {
            trace: text(recording.trace().path()).to_owned(),
            function: u64::from_str_radix(function, 16).expect(function),
            map: format!("/tmp/perf-{pid}.map").into(),
        }
    }

    fn record(place: &Workplace, options: &[&str]) -> Generated {
        let program = place.program("generated.c");
        Generated::record_command(place, options, &[text(&program), "serve"])
    }

    fn line(&self) -> String {
        format!("{:x} 20 serve\n", self.function)
    }

    /// The event with its address, and what is said about it.
    fn view(&self, place: &Workplace) -> (String, String) {
        let viewed = view(place, &self.trace, &["--event", "generated:call", "--fields", "code"]);
        viewed.expect_success();
        (viewed.stdout, viewed.stderr)
    }

    fn expect_refused(&self, place: &Workplace, why: &str) {
        let (shown, said) = self.view(place);
        assert!(!shown.contains('<'), "{shown}");
        let note = format!("{} is not used: {why}", self.map.display());
        assert_eq!(said.matches(&note).count(), 1, "{said}");
    }
}

#[test]
fn code_that_was_made_at_run_time_has_the_names_that_the_process_wrote_for_perf() {
    let place = Workplace::new();
    let generated = Generated::record(&place, &["--no-kernel"]);
    let (shown, said) = generated.view(&place);
    assert!(shown.contains(" <serve+0x4>"), "{shown} {said}");
    // Lines that mean nothing are passed over, and counted.
    fs::write(&generated.map, format!("\x1b[31m\n{}zz\n", generated.line())).expect("it is ours");
    let (shown, said) = generated.view(&place);
    assert!(shown.contains(" <serve+0x4>"), "{shown} {said}");
    assert!(said.contains("2 lines cannot be understood"), "{said}");
    // Nothing of it reaches the terminal as it is.
    let line = generated.line().replace("serve", "\x1b[31mserve");
    fs::write(&generated.map, line).expect("it is ours");
    let (shown, _) = generated.view(&place);
    assert!(shown.contains("[31mserve+0x4>") && !shown.contains('\x1b'), "{shown}");
    let large = fs::File::options()
        .write(true)
        .open(&generated.map)
        .expect("it is ours");
    large.set_len(1 << 32).expect("a file may have holes");
    let (shown, said) = generated.view(&place);
    assert!(
        shown.contains("<") && said.contains("only its first 64 MiB are used"),
        "{shown} {said}"
    );
}

#[test]
fn a_perf_map_that_is_no_file_or_somebody_elses_is_not_used() {
    let place = Workplace::new();
    let generated = Generated::record(&place, &["--no-kernel"]);
    if rustix::process::geteuid().is_root() {
        chown(&generated.map, Some(NOBODY), None).expect("root may");
        generated.expect_refused(&place, &format!("it belongs to user {NOBODY}"));
        chown(&generated.map, Some(0), None).expect("root may");
        assert!(generated.view(&place).0.contains("<serve+0x4>"));
    } else {
        println!("skipped: only root can give files away");
    }
    fs::remove_file(&generated.map).expect("it is ours");
    process::run(Command::new("mkfifo").arg(&generated.map)).expect_success();
    generated.expect_refused(&place, "it is not a regular file");
    fs::remove_file(&generated.map).expect("it is ours");
    let target = place.path("map");
    fs::write(&target, generated.line()).expect("a file can be made there");
    std::os::unix::fs::symlink(&target, &generated.map).expect("a link can be made there");
    generated.expect_refused(&place, "it is not a regular file");
}

#[test]
fn a_perf_map_of_the_user_of_the_process_is_used() {
    let place = Workplace::new();
    if !users::enter(&place) {
        return;
    }
    let program = place.program("generated.c");
    place.start_pisted();
    let user = format!("--reuid={NOBODY}");
    let command = ["setpriv", &user, "--clear-groups", "--", text(&program), "serve"];
    let generated = Generated::record_command(&place, &["--no-kernel"], &command);
    let (shown, said) = generated.view(&place);
    assert!(shown.contains("<serve+0x4>"), "{shown} {said}");
}

#[test]
fn a_perf_map_of_an_earlier_or_later_process_of_the_same_number_is_not_used() {
    let Some(place) = kernel::workplace() else { return };
    let generated = Generated::record(&place, &[]);
    let (shown, said) = generated.view(&place);
    assert!(shown.contains("<serve+0x4>"), "{shown} {said}");
    let file = fs::File::options()
        .write(true)
        .open(&generated.map)
        .expect("it is ours");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    file.set_modified(long_ago).expect("it is ours");
    generated.expect_refused(&place, "it is older than the process");
    fs::remove_file(&generated.map).expect("it is ours");
    fs::write(&generated.map, generated.line()).expect("a file can be made there");
    if fs::metadata(&generated.map)
        .and_then(|metadata| metadata.created())
        .is_ok()
    {
        generated.expect_refused(&place, "it was created after the recording");
    }
}
