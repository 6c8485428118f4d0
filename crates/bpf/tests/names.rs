// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program in the running kernel.

use std::fs::File;

use piste_bpf::{Failure, Program, Ring, Settings, Switches};
use piste_syscalls::copies::{Call, Copy, Kind, State, When, record};
use rustix::thread::gettid;

const NATIVE: usize = 0;
const OPENAT: usize = 257;
const CLOSE: usize = 3;
const SETTINGS: Settings = Settings {
    entry_type: 7,
    exit_type: 8,
    late_type: 9,
    user: None,
    ring_bytes: 1 << 20,
    wake_bytes: 1 << 19,
};

/// A record with its time, as the test looks at it.
struct Seen {
    cpu: u32,
    time_ns: u64,
    bytes: Vec<u8>,
}

impl Seen {
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("a record is longer")
    }

    fn kind(&self) -> u16 {
        u16::from_ne_bytes(self.number(record::TYPE))
    }

    fn call(&self) -> i64 {
        i64::from_ne_bytes(self.number(record::NUMBER))
    }

    /// A copy, and what became of it.
    fn copy(&self, places: usize, index: usize) -> (&[u8], State) {
        let place = u32::from_ne_bytes(self.number(places + 4 * index));
        let (from, bytes) = ((place & 0xffff) as usize, (place >> 16) as usize);
        let states = u16::from_ne_bytes(self.number(places + record::STATES));
        (&self.bytes[from..from + bytes], State::of(states, index))
    }
}

fn load() -> Option<(Program, Vec<Ring>)> {
    let cpu_count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let program = match Program::load(&SETTINGS, cpu_count) {
        Err(error @ (Failure::NotBuilt | Failure::NoTypes | Failure::NotPermitted)) => {
            println!("skipped: {error}");
            return None;
        }
        loaded => loaded.expect("the kernel accepts the program"),
    };
    let rings = (0..cpu_count).map(|cpu| program.ring(cpu).expect("each CPU has a ring"));
    let rings = rings.collect();
    Some((program, rings))
}

/// Records this thread alone while `work` lasts.
fn record_while(program: &Program, rings: &mut [Ring], work: impl FnOnce()) -> Vec<Seen> {
    program.track(gettid().as_raw_pid()).expect("there is room");
    let switches = Switches {
        is_on: true,
        is_selective: true,
        ..Switches::default()
    };
    program.switch(switches).expect("it is loaded");
    work();
    program.switch(Switches::default()).expect("it is loaded");
    let mut all = Vec::new();
    for (cpu, ring) in (0..).zip(rings) {
        while let Some(sample) = ring.take_next() {
            let (time_ns, bytes) = (sample.time_ns, sample.record.to_vec());
            all.push(Seen { cpu, time_ns, bytes });
        }
        ring.release(ring.position());
        assert_eq!(ring.filled_bytes(), 0);
        assert_eq!(program.counts(cpu).expect("it is counted").lost, 0);
    }
    all.sort_by_key(|seen| seen.time_ns);
    all
}

fn path_of(argument: u8, limit_bytes: u16) -> Copy {
    Copy {
        argument,
        when: When::Entry,
        kind: Kind::Text,
        pointer_at: None,
        limit_bytes,
    }
}

#[test]
fn an_entry_has_the_path_and_an_exit_the_result() {
    let Some((program, mut rings)) = load() else { return };
    let open = Call {
        entry: true,
        exit: true,
        copies: vec![path_of(1, 4096)],
        filter: None,
    };
    program.set_call(NATIVE, OPENAT, &open).expect("it is a call");
    let seen = record_while(&program, &mut rings, || {
        File::open("/proc/self/maps").expect("it is there");
        File::open("/no/such file").expect_err("it is not there");
    });
    let said: Vec<(u16, i64)> = seen.iter().map(|seen| (seen.kind(), seen.call())).collect();
    let call = OPENAT as i64;
    assert_eq!(said, [(7, call), (8, call), (7, call), (8, call)]);
    let paths: Vec<_> = seen
        .iter()
        .step_by(2)
        .map(|seen| seen.copy(record::ENTRY_PLACES, 0))
        .collect();
    assert_eq!(
        paths,
        [
            (&b"/proc/self/maps\0"[..], State::Whole),
            (b"/no/such file\0", State::Whole)
        ]
    );
    let results = seen.iter().skip(1).step_by(2);
    let results: Vec<i64> = results
        .map(|seen| i64::from_ne_bytes(seen.number(record::WORDS)))
        .collect();
    assert!(results[0] > 2 && results[1] == -2, "{results:?}");
    let tid = gettid().as_raw_pid();
    assert!(
        seen.iter()
            .all(|seen| i32::from_ne_bytes(seen.number(record::TID)) == tid)
    );
    assert!(seen.iter().all(|seen| (seen.cpu as usize) < rings.len()));
}

#[test]
fn a_long_text_is_cut_and_the_record_says_so() {
    let Some((program, mut rings)) = load() else { return };
    let open = Call {
        entry: true,
        exit: false,
        copies: vec![path_of(1, 8)],
        filter: None,
    };
    program.set_call(NATIVE, OPENAT, &open).expect("it is a call");
    let seen = record_while(&program, &mut rings, || {
        for path in ["/123456", "/1234567", "/12345678"] {
            File::open(path).expect_err("it is not there");
        }
    });
    let copies: Vec<_> = seen.iter().map(|seen| seen.copy(record::ENTRY_PLACES, 0)).collect();
    assert_eq!(
        copies,
        [
            (&b"/123456\0"[..], State::Whole),
            (b"/123456\0", State::Cut),
            (b"/123456\0", State::Cut)
        ]
    );
}

#[test]
fn only_calls_and_threads_that_are_asked_for_are_recorded() {
    let Some((program, mut rings)) = load() else { return };
    let close = Call {
        entry: true,
        exit: true,
        copies: Vec::new(),
        filter: None,
    };
    program.set_call(NATIVE, CLOSE, &close).expect("it is a call");
    let seen = record_while(&program, &mut rings, || {
        let other = std::thread::spawn(|| drop(File::open("/dev/null")));
        other.join().expect("it ends");
        drop(File::open("/dev/null"));
    });
    assert_eq!(seen.iter().map(Seen::call).collect::<Vec<_>>(), [CLOSE as i64; 2]);
    let tid = gettid().as_raw_pid();
    assert_eq!(program.tracked(), [tid]);
    program.untrack(tid).expect("it is tracked");
    assert!(program.tracked().is_empty());
}

#[test]
fn a_program_that_is_kept_goes_on_without_a_process() {
    let Some((mut program, mut rings)) = load() else { return };
    let name = format!("piste-test-{}.kept", std::process::id());
    let open = Call {
        entry: true,
        exit: false,
        copies: vec![path_of(1, 4096)],
        filter: None,
    };
    let fail_to_open = |path: &str| drop(File::open(path).expect_err("it is not there"));
    let paths = |seen: &[Seen]| -> Vec<String> {
        let copies = seen.iter().map(|seen| seen.copy(record::ENTRY_PLACES, 0).0);
        copies.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    };
    program.set_call(NATIVE, OPENAT, &open).expect("it is a call");
    assert!(Program::kept(&name).expect("it is looked for").is_none());
    program.keep(&name).expect("there is a file system for it");
    let first = record_while(&program, &mut rings, || fail_to_open("/none/1"));
    let switches = Switches {
        is_on: true,
        is_selective: true,
        ..Switches::default()
    };
    program.switch(switches).expect("it is loaded");
    let cpu_count = rings.len() as u32;
    drop((program, rings));
    // Nobody has it now.
    fail_to_open("/none/2");
    let program = Program::kept(&name).expect("it can be opened").expect("it is kept");
    let mut rings: Vec<Ring> = (0..cpu_count)
        .map(|cpu| program.ring(cpu).expect("it is there"))
        .collect();
    let then = record_while(&program, &mut rings, || fail_to_open("/none/3"));
    assert_eq!(paths(&first), ["/none/1\0"]);
    assert_eq!(paths(&then), ["/none/2\0", "/none/3\0"]);
    piste_bpf::remove(&name).expect("it can be removed");
    assert!(Program::kept(&name).expect("it is looked for").is_none());
    piste_bpf::remove(&name).expect("that there is none is no error");
}
