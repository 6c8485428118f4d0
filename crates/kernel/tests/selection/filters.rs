// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters on the real kernel: it takes what they are translated to, and records what they say.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use piste_filter::{Filter, FilterError};
use piste_kernel::filter::{self, Words};
use piste_kernel::format::EventFormat;
use piste_kernel::spec::Tracked;

use super::model::{self, Model, Subject, Value};
use super::recorder::{Record, Recorder, filtered, kernel, tracepoints};

const SEED: u64 = 0x5eed_2024;
/// The kernel's limit.
const THREAD_ID_MAX: u32 = 4_194_304;
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the fields of sched_switch.
const PREV_STATE: usize = 3;

#[test]
fn the_kernel_takes_every_filter_that_is_translated() {
    let Some(kernel) = kernel() else { return };
    let (catalog, recorder) = (kernel.catalog(), Recorder::new(kernel, 4));
    let mut random = Rng::with_seed(SEED);
    let mut count = 0;
    for (system, name) in catalog.names().filter(|(system, _)| *system != "ftrace") {
        let event = catalog.by_name(system, name).expect("a format");
        let subjects = model::subjects(event);
        for _ in 0..3 {
            let text = model::random(&mut random, &subjects, &[], 3).text(&mut random);
            let words = in_kernel_words(&text, event).unwrap_or_else(|error| panic!("{name}: {text}: {error}"));
            let words = words.unwrap_or_else(|| panic!("{name}: {text} depends on the event"));
            let file = format!("events/{system}/{name}/filter");
            let taken = recorder.instance().write(&file, &words);
            taken.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(recorder.instance().read(&file).expect("the filter").trim_end(), words);
            recorder.instance().write(&file, "0").expect("no filter");
            count += 1;
        }
        // Every field: it is refused here, or taken there.
        for field in event.fields.iter().chain(&event.common) {
            for value in ["== 0", "< 1", "& 1", "== \"x\"", "=~ \"*x\"", "!~ \"[a-z]?\""] {
                let text = format!("$payload.{} {value}", field.name);
                if let Ok(Some(words)) = in_kernel_words(&text, event) {
                    let file = format!("events/{system}/{name}/filter");
                    let taken = recorder.instance().write(&file, &words);
                    taken.unwrap_or_else(|error| panic!("{system}:{name}: {text} ({}): {error}", field.type_text));
                    recorder.instance().write(&file, "0").expect("no filter");
                    count += 1;
                }
            }
        }
    }
    println!("{count} filters");
}

/// The filter as the kernel is told it; `None` when it does not depend on the event.
fn in_kernel_words(text: &str, event: &EventFormat) -> Result<Option<String>, FilterError> {
    let filter = Filter::parse(text)?;
    Ok(match filter::translate(&filter, event, Some(&event.name))?.words {
        Words::Some(words) => Some(words),
        Words::Everything | Words::Nothing => None,
    })
}

/// Events that a shell's work makes on its own threads.
const EVENTS: [&str; 9] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "task:task_newtask",
    "task:task_rename",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "signal:signal_generate",
];

/// Does things with programs whose names begin with a digit and with `!`, when its input ends.
fn work(folder: &Path) -> std::process::Child {
    for name in ["9lives", "!bang", "a name of 15 ch"] {
        let copy = folder.join(name);
        fs::copy("/bin/true", &copy).expect("a copy");
        fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let script = "read x; ./9lives; ./!bang & ./9lives a b | cat; './a name of 15 ch'; wait; sleep 0.01; ls / >/dev/null; kill -0 $$; :";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell")
}

/// Lets all of `recorders` record the same work; records of each event, for each of them.
fn record(recorders: &[Recorder], start: impl Fn(usize, &Recorder, &Tracked)) -> Vec<BTreeMap<u16, Vec<Record>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = work(folder.path());
    // It is not recorded before it waits.
    let call = || fs::read_to_string(format!("/proc/{}/syscall", shell.id())).unwrap_or_default();
    while !call().starts_with("0 0x0 ") {
        thread::sleep(Duration::from_millis(1));
    }
    let tracked = Tracked {
        pids: vec![shell.id()],
        follow_children: true,
        ..Tracked::default()
    };
    for (index, recorder) in recorders.iter().enumerate() {
        start(index, recorder, &tracked);
        recorder.instance().set_on(true).expect("on");
    }
    shell.stdin.take().expect("its input").write_all(b"\n").expect("a line");
    assert!(shell.wait().expect("its end").success());
    recorders.iter().for_each(wait_for_last_switches);
    for recorder in recorders {
        recorder.instance().set_on(false).expect("off");
    }
    let by_event = |recorder: &Recorder| {
        let mut events: BTreeMap<u16, Vec<Record>> = BTreeMap::new();
        for record in recorder.records() {
            events.entry(record.id()).or_default().push(record);
        }
        events
    };
    recorders.iter().map(by_event).collect()
}

/// A thread's last switch is behind its end, on a busy machine by a while. The kernel takes the thread off its list after that.
fn wait_for_last_switches(recorder: &Recorder) {
    let begun = Instant::now();
    loop {
        let list = recorder.instance().read("set_event_pid").expect("a list");
        // The stamp that src/tracked/mod.rs leaves there is no thread.
        let is_thread = |id: &str| id.parse().is_ok_and(|id: u32| id <= THREAD_ID_MAX);
        if !list.split_whitespace().any(is_thread) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "threads that do not go: {list}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_filter_says_is_what_is_recorded() {
    const FILTERED: usize = 40;
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let formats: Vec<_> = EVENTS
        .iter()
        .map(|event| {
            let (system, name) = event.split_once(':').expect("a colon");
            catalog.by_name(system, name).expect("a format")
        })
        .collect();
    let unfiltered = EVENTS.map(tracepoints);
    let recorders: Vec<Recorder> = (0..=FILTERED).map(|_| Recorder::new(kernel, 16)).collect();
    // Values that occur make filters that are neither always nor never true.
    let sampled = record(&recorders[..1], |_, recorder, tracked| {
        recorder.apply(&catalog, &unfiltered, tracked)
    });

    let mut random = Rng::with_seed(SEED);
    let models: Vec<Vec<Model>> = (0..FILTERED)
        .map(|_| {
            let of_event = |format: &&EventFormat| {
                let samples = sampled[0].get(&format.id).map_or(&[][..], Vec::as_slice);
                let subjects = subjects(format);
                // One that is true of some and false of others says most; not every event allows one.
                let mut candidates = (0..30).map(|_| {
                    let depth = random.usize(..4);
                    model::random(&mut random, &subjects, samples, depth)
                });
                let is_mixed = |model: &Model| {
                    samples
                        .iter()
                        .any(|record| model.says(record) != model.says(&samples[0]))
                };
                let last = candidates.next().expect("the first");
                candidates.find(is_mixed).unwrap_or(last)
            };
            formats.iter().map(of_event).collect()
        })
        .collect();
    let texts: Vec<Vec<String>> = models
        .iter()
        .map(|models| models.iter().map(|model| model.text(&mut random)).collect())
        .collect();
    let recorded = record(&recorders, |index, recorder, tracked| match index {
        0 => recorder.apply(&catalog, &unfiltered, tracked),
        _ => {
            let rules = EVENTS
                .iter()
                .zip(&texts[index - 1])
                .map(|(event, text)| filtered(tracepoints(event), text));
            recorder.apply(&catalog, &rules.collect::<Vec<_>>(), tracked);
        }
    });
    let none = Vec::new();
    let (mut some, mut mixed) = (0, 0);
    for (index, (models, texts)) in models.iter().zip(&texts).enumerate() {
        for ((format, model), text) in formats.iter().zip(models).zip(texts) {
            let all = recorded[0].get(&format.id).unwrap_or(&none);
            let seen = recorded[index + 1].get(&format.id).unwrap_or(&none);
            let values = |records: &mut dyn Iterator<Item = &Record>| sorted_values(format, records);
            let mut expected = values(&mut all.iter().filter(|record| model.says(record)));
            let mut seen = values(&mut seen.iter());
            // Whether a thread that has ended is dead or a zombie changes while the kernel tells one instance after the other.
            if format.name == "sched_switch" {
                let has_ended = |values: &Vec<Value>| matches!(values[PREV_STATE], Value::Number(16 | 32));
                expected.retain(|values| !has_ended(values));
                seen.retain(|values| !has_ended(values));
            }
            let strange: Vec<_> = seen.iter().filter(|values| !expected.contains(values)).collect();
            let missing: Vec<_> = expected.iter().filter(|values| !seen.contains(values)).collect();
            assert_eq!((strange, missing), (vec![], vec![]), "{}: {text}", format.name);
            assert_eq!(seen.len(), expected.len(), "{}: {text}", format.name);
            some += usize::from(!all.is_empty());
            mixed += usize::from(!expected.is_empty() && expected.len() < all.len());
        }
    }
    println!("{some} filters of events that occurred, {mixed} of them true of some and false of others");
    assert!(mixed > 100, "{mixed}");
}

/// What is the same in every instance. Each of them sees the flags of its own moment, and in a system call also its own CPU: there the thread
/// may be moved between one instance and the next.
fn subjects(format: &EventFormat) -> Vec<Subject> {
    let mut subjects = model::subjects(format);
    subjects.retain(|subject| match subject {
        Subject::Field { field, .. } => !matches!(&*field.name, "common_flags" | "common_preempt_count"),
        Subject::Cpu => format.system != "raw_syscalls",
    });
    subjects
}

/// What the fields of records say. What is behind the end of a text differs from instance to instance.
fn sorted_values(format: &EventFormat, records: &mut dyn Iterator<Item = &Record>) -> Vec<Vec<Value>> {
    let subjects = subjects(format);
    let values = |record: &Record| subjects.iter().map(|subject| subject.value(record)).collect();
    let mut values: Vec<Vec<Value>> = records.map(values).collect();
    values.sort_unstable();
    values
}
