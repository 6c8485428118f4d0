// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in random order, while programs record, start, end and are killed: what a program records after a command has returned, and before
//! the next one begins, is exactly what the session's rules say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use piste_support::Workplace;
use rustix::process::Signal;
use serde_json::{Value, json};

const COMMAND_COUNT: u32 = 10_000;
const PROGRAM_COUNT: u64 = 3;
/// How long a thread waits for what others do before it sees whether they still run.
const PATIENCE: Duration = Duration::from_millis(100);
/// The events of the program, of which it records each one once in a round.
const EVENTS: [&str; 3] = ["shop:order", "shop:debug_note", "bank:failure"];
const PATTERNS: [&str; 5] = ["shop:order", "shop:*", "bank:failure", "*:*o*", "bank:*"];
/// Each replaces the channel by another, of which a session has 32.
const CONTEXTS: [&str; 12] = [
    "vpid",
    "procname",
    "nice",
    "prio",
    "vuid",
    "vgid",
    "pid_ns",
    "uts_ns",
    "ip",
    "pthread_id",
    "veuid",
    "vegid",
];

/// A connection to pisted's control interface.
struct Control {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl Control {
    fn connect(place: &Workplace) -> Control {
        place.start_pisted();
        let to = UnixStream::connect(place.run_folder().join("control.sock")).expect("pisted listens");
        let from = BufReader::new(to.try_clone().expect("a descriptor"));
        Control { to, from }
    }

    /// Calls a method; the name of the error, if that is one of those that are `allowed`.
    fn call(&mut self, method: &str, parameters: Value, allowed: &[&str]) -> Result<Value, String> {
        let call = json!({ "method": format!("dev.piste.Control.{method}"), "parameters": parameters });
        self.to.write_all(format!("{call}\0").as_bytes()).expect("pisted reads");
        let mut reply = Vec::new();
        self.from.read_until(0, &mut reply).expect("pisted answers");
        let reply: Value = serde_json::from_slice(reply.strip_suffix(b"\0").expect("a whole reply")).expect("JSON");
        let Some(error) = reply["error"].as_str() else {
            return Ok(reply["parameters"].clone());
        };
        let name = error.rsplit('.').next().expect("a name");
        assert!(allowed.contains(&name), "{method} {parameters}: {reply}");
        Err(name.to_owned())
    }
}

/// A session, as commands have made it.
#[derive(Clone, Default)]
struct Session {
    /// Its trace.
    folder: String,
    is_active: bool,
    is_channel_disabled: bool,
    rules: BTreeMap<&'static str, Rule>,
    context_count: usize,
}

#[derive(Clone, Copy)]
struct Rule {
    is_enabled: bool,
    /// Records numbers of which this bit is set.
    bit: Option<u64>,
}

impl Session {
    fn wants(&self, event: &str, number: u64) -> bool {
        let lets_pass = |rule: &Rule| rule.is_enabled && rule.bit.is_none_or(|bit| number & bit != 0);
        let mut rules = self.rules.iter();
        self.is_active
            && !self.is_channel_disabled
            && rules.any(|(pattern, rule)| matches(pattern, event) && lets_pass(rule))
    }
}

fn matches(pattern: &str, event: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == event,
        Some((begin, rest)) => {
            let ends = |event: &str| event.match_indices("").any(|(at, _)| matches(rest, &event[at..]));
            event.strip_prefix(begin).is_some_and(ends)
        }
    }
}

/// What all threads know. A version is odd while a command is being executed; each even one has a session.
#[derive(Default)]
struct World {
    version: AtomicU64,
    sessions: Mutex<BTreeMap<u64, Session>>,
    /// Rounds of programs between two commands.
    quiet_rounds: AtomicU64,
    is_over: AtomicBool,
    /// That one of these numbers has changed.
    changed: Condvar,
    changing: Mutex<()>,
}

impl World {
    /// Changes a number, and wakes those that wait for that.
    fn change<T>(&self, change: impl FnOnce() -> T) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        change();
        self.changed.notify_all();
    }

    /// Waits while something holds, but not for ever.
    fn wait_while(&self, holds: impl Fn() -> bool) {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(changing, PATIENCE, |()| holds());
    }
}

/// That a program recorded its events with a number, between two looks at the version.
struct Round {
    pid: i32,
    number: u64,
    versions: [u64; 2],
}

fn run_programs(place: &Workplace, program: &Path, world: &World, seed: u64) -> Vec<Round> {
    let mut random = Rng::with_seed(seed);
    let mut rounds = Vec::new();
    while !world.is_over.load(Ordering::SeqCst) {
        let mut running = place.start(program, &[]);
        for number in 0..random.u64(1..60) {
            let before = world.version.load(Ordering::SeqCst);
            assert_eq!(running.ask("record 1"), "done");
            let after = world.version.load(Ordering::SeqCst);
            let is_quiet = before == after && before.is_multiple_of(2);
            if is_quiet {
                world.change(|| world.quiet_rounds.fetch_add(1, Ordering::SeqCst));
            }
            // It leaves the CPU to the command that is being executed, or to the next one.
            if is_quiet || !after.is_multiple_of(2) {
                world.wait_while(|| {
                    world.version.load(Ordering::SeqCst) == after && !world.is_over.load(Ordering::SeqCst)
                });
            }
            rounds.push(Round {
                pid: running.pid(),
                number,
                versions: [before, after],
            });
        }
        if random.bool() {
            running.signal(Signal::KILL);
        }
        running.finish();
    }
    rounds
}

fn create(control: &mut Control, random: &mut Rng, place: &Workplace) -> Session {
    let folder = format!("trace-{}", random.u64(..));
    let wanted = json!({ "name": "web", "output": place.path(&folder), "snapshot": false });
    control.call("CreateSession", wanted, &[]).expect("there is none");
    let channel = json!({ "name": "default", "subbuf_count": 16 });
    let enabled = control.call("EnableChannel", json!({ "channel": channel }), &[]);
    enabled.expect("it is a new one");
    Session {
        folder,
        ..Session::default()
    }
}

/// A random command, and what it makes of the session.
fn command(control: &mut Control, random: &mut Rng, session: &mut Session, place: &Workplace) {
    let pattern = PATTERNS[random.usize(0..PATTERNS.len())];
    match random.u32(0..200) {
        0..2 => {
            let destroyed = control.call("DestroySession", json!({ "session": "web" }), &[]);
            destroyed.expect("it is there");
            *session = create(control, random, place);
        }
        2..70 => {
            let bit = random.bool().then(|| 1 << random.u32(0..3));
            let filter = bit.map(|bit| format!("number & {bit}"));
            let wanted = json!({ "patterns": [pattern], "excluded": [], "filter": filter });
            control.call("EnableEvent", wanted, &[]).expect("a rule");
            session.rules.insert(pattern, Rule { is_enabled: true, bit });
        }
        70..130 => {
            let wanted = json!({ "patterns": [pattern] });
            let disabled = control.call("DisableEvent", wanted, &["NoRule"]);
            if let (Ok(_), Some(rule)) = (disabled, session.rules.get_mut(pattern)) {
                rule.is_enabled = false;
            }
        }
        130..160 => {
            let started = control.call("Start", json!({}), &["AlreadyActive", "NothingEnabled"]);
            session.is_active |= started.is_ok();
        }
        160..170 => {
            let wanted = json!({ "channel": "default" });
            control.call("DisableChannel", wanted, &[]).expect("it is there");
            session.is_channel_disabled = true;
        }
        170..190 => {
            let wanted = json!({ "channel": { "name": "default" } });
            control.call("EnableChannel", wanted, &[]).expect("it is there");
            session.is_channel_disabled = false;
        }
        190..198 => {
            let stopped = control.call("Stop", json!({}), &["NotActive"]);
            session.is_active &= stopped.is_err();
        }
        _ => {
            if let Some(context) = CONTEXTS.get(session.context_count) {
                let added = control.call("AddContexts", json!({ "contexts": [context] }), &[]);
                added.expect("it has it now");
                session.context_count += 1;
            }
        }
    }
}

/// Of each trace, the events: process, name, number.
fn recorded(place: &Workplace, folder: &str) -> BTreeSet<(i32, String, u64)> {
    let trace = place.path(folder);
    if !trace.join("user").exists() {
        return BTreeSet::new();
    }
    let text = place.piste_succeeds(&["view", "--format", "ndjson", trace.to_str().expect("UTF-8")]);
    let mut events = BTreeSet::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("a line of JSON");
        let name = event["name"].as_str().expect("a name").to_owned();
        // A pattern may match events with which programs describe themselves.
        if !EVENTS.contains(&&*name) {
            continue;
        }
        let pid = event["packet_context"]["pid"].as_i64().expect("a process") as i32;
        let number = event["payload"]["number"].as_u64().expect("a number");
        let is_new = events.insert((pid, name, number));
        assert!(is_new, "twice in {folder}: {event}");
    }
    events
}

#[test]
fn what_is_recorded_is_what_the_last_command_said() {
    let place = Workplace::new();
    let program = place.program("puppet.c");
    let mut control = Control::connect(&place);
    let mut random = Rng::with_seed(16);
    let world = World::default();
    let mut session = create(&mut control, &mut random, &place);
    let rounds: Vec<Round> = thread::scope(|scope| {
        let (place, program, world) = (&place, &program, &world);
        let start = |seed| scope.spawn(move || run_programs(place, program, world, seed));
        let threads: Vec<_> = (0..PROGRAM_COUNT).map(start).collect();
        for _ in 0..COMMAND_COUNT {
            world.change(|| world.version.fetch_add(1, Ordering::SeqCst));
            command(&mut control, &mut random, &mut session, place);
            let version = world.version.load(Ordering::SeqCst) + 1;
            world
                .sessions
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(version, session.clone());
            let quiet_rounds = world.quiet_rounds.load(Ordering::SeqCst);
            world.change(|| world.version.store(version, Ordering::SeqCst));
            while world.quiet_rounds.load(Ordering::SeqCst) == quiet_rounds {
                assert!(
                    !threads.iter().any(thread::ScopedJoinHandle::is_finished),
                    "a program failed"
                );
                world.wait_while(|| world.quiet_rounds.load(Ordering::SeqCst) == quiet_rounds);
            }
        }
        world.change(|| world.is_over.store(true, Ordering::SeqCst));
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("it asserts"))
            .collect()
    });
    control
        .call("DestroySession", json!({ "session": "web" }), &[])
        .expect("it is there");

    let sessions = world.sessions.into_inner().unwrap_or_else(PoisonError::into_inner);
    let folders: BTreeSet<&str> = sessions.values().map(|session| &*session.folder).collect();
    let traces: BTreeMap<&str, _> = folders
        .into_iter()
        .map(|folder| (folder, recorded(&place, folder)))
        .collect();
    let (mut wanted, mut unwanted, mut unknown) = (0, 0, 0);
    for round in &rounds {
        let [before, after] = round.versions;
        for event in EVENTS {
            let is_in = |folder: &str| traces[folder].contains(&(round.pid, event.to_owned(), round.number));
            let Some(session) = sessions.get(&before).filter(|_| before == after) else {
                unknown += 1;
                continue;
            };
            let (is_wanted, is_there) = (session.wants(event, round.number), is_in(&session.folder));
            assert_eq!(
                is_there, is_wanted,
                "{event} {} of {} at version {before}",
                round.number, round.pid
            );
            wanted += u64::from(is_wanted);
            unwanted += u64::from(!is_wanted);
        }
    }
    println!(
        "{} traces, {} rounds: {wanted} events wanted, {unwanted} not, {unknown} during a command",
        traces.len(),
        rounds.len()
    );
    assert!(wanted > 1000 && unwanted > 1000 && unknown > 1000);
}
