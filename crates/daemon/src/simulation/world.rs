// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler of a simulation: dice decide who does something next, and how far. Nothing else decides anything, so a seed is one run.

mod ending;
mod people;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tempfile::TempDir;

use super::contract::{Answer, CommandId, Contract, Emitted, Expected};
use super::disk::{self, Mood};
use super::pisted::Pisted;
use super::program::{Emission, Program, RING_COUNT};
use super::traces;
use super::truth::{Committed, Truth};
use super::{Figures, clock};
use crate::consumer::tests::stepped::{ConsumerProcess, Fate};
use crate::link::SessionId;
use crate::session::{Change, ProgramId};

/// Records have later times than this.
const FIRST_TICKS: u64 = 1 << 40;
const PROGRAMS_MAX: usize = 4;
/// Of events, by which filters tell them apart.
const KINDS: u64 = 3;

pub(super) struct World {
    dice: Rng,
    epoch: Instant,
    now: Duration,
    folder: TempDir,
    pisted: Option<Pisted>,
    pisted_count: u64,
    consumer: Option<ConsumerProcess>,
    programs: Vec<Program>,
    contract: Contract,
    truth: Truth,
    mood: Mood,
    /// What programs had recorded when somebody asked for it to be written.
    flushes: BTreeMap<CommandId, Committed>,
    /// Sessions that were closed while the disk failed.
    cut: BTreeSet<SessionId>,
    last_command: CommandId,
    last_number: u64,
    last_session: u64,
    last_pid: i32,
    log: DefaultHasher,
    figures: Figures,
    is_told: bool,
}

impl World {
    /// One in which nothing has happened. It has this thread's clock and disk.
    pub(super) fn new(seed: u64, is_told: bool) -> World {
        disk::insert(seed);
        let mut world = World {
            dice: Rng::with_seed(seed),
            epoch: Instant::now(),
            now: Duration::ZERO,
            // In memory: thousands of files are made and synchronized.
            folder: tempfile::tempdir_in("/dev/shm").expect("there is shared memory"),
            pisted: None,
            pisted_count: 0,
            consumer: None,
            programs: Vec::new(),
            contract: Contract::default(),
            truth: Truth::default(),
            mood: Mood::Works,
            flushes: BTreeMap::new(),
            cut: BTreeSet::new(),
            last_command: 0,
            last_number: 0,
            last_session: 0,
            last_pid: 0,
            log: DefaultHasher::new(),
            figures: Figures::default(),
            is_told,
        };
        world.pass(Duration::ZERO);
        world.start_pisted();
        world
    }

    /// Lets so many things happen, then lets everything end, and checks it. Returns what is the same in each run of a seed.
    pub(super) fn run(mut self, steps: usize) -> Figures {
        for _ in 0..steps {
            self.step();
            self.settle();
        }
        self.finish();
        self.figures.log = self.log.finish();
        self.figures.clone()
    }

    fn instant(&self) -> Instant {
        self.epoch + self.now
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        clock::set(Some(FIRST_TICKS + self.now.as_nanos() as u64));
        if let Some(consumer) = &self.consumer {
            consumer.set_clock(self.instant());
        }
    }

    /// Adds something to the log.
    fn tell(&mut self, what: &str) {
        let folder = self.folder.path().to_string_lossy();
        let what = what.replace(&*folder, "");
        what.hash(&mut self.log);
        if self.is_told {
            println!("{:>12} {what}", self.now.as_micros());
        }
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.dice.u32(..one_in) == 0
    }

    fn step(&mut self) {
        match self.dice.u32(..100) {
            0..10 => {
                let us = self.dice.u64(..2000);
                self.pass(Duration::from_micros(us));
            }
            10 => {
                let ms = self.dice.u64(100..900);
                self.pass(Duration::from_millis(ms));
            }
            11..30 => self.emit(),
            30..42 => self.let_program_obey(),
            42..45 => self.start_program(),
            45 => self.kill_program(),
            46..48 => self.let_thread_go_on(),
            48..60 => self.let_pisted_serve_program(),
            60..68 => self.let_pisted_serve_consumer(),
            68..76 => self.let_consumer_receive(),
            76..86 => self.let_consumer_look(),
            86..95 => self.ask(),
            95 => self.kill_consumer(),
            96 => self.kill_pisted(),
            97 => self.change_disk(),
            _ => self.start_pisted(),
        }
    }

    fn living(&self) -> BTreeSet<ProgramId> {
        let living = self.programs.iter().filter(|program| program.is_alive);
        living.map(|program| program.id).collect()
    }

    fn a_program(&mut self) -> Option<usize> {
        let living: Vec<usize> = (0..self.programs.len())
            .filter(|&place| self.programs[place].is_alive)
            .collect();
        self.dice.choice(&living).copied()
    }

    fn emit(&mut self) {
        let Some(place) = self.a_program() else { return };
        let count = match self.dice.u32(..8) {
            0 => self.dice.u32(..1000),
            1..3 => self.dice.u32(..100),
            _ => self.dice.u32(1..10),
        };
        for _ in 0..count {
            self.emit_one(place);
        }
    }

    fn emit_one(&mut self, place: usize) {
        let pause = Duration::from_nanos(self.dice.u64(1..2000));
        self.pass(pause);
        self.last_number += 1;
        let (module, index, name) = self.programs[place].an_event(&mut self.dice);
        let emission = Emission {
            module,
            index,
            ring_index: self.dice.u32(..RING_COUNT),
            number: self.last_number,
            kind: self.dice.u64(..KINDS),
            ticks: clock::ticks().expect("the clock is set"),
            stops: self.chance(300),
        };
        let program = &mut self.programs[place];
        let taken = program.emit(emission, &mut self.truth);
        let program = &self.programs[place];
        let event = Emitted {
            module,
            name,
            kind: emission.kind,
        };
        for &session in self.contract.sessions.keys() {
            // What nobody has the memory of is in no trace.
            let is_of_session = |key| self.truth.session_of(key) == session && !self.truth.lost.contains(&key);
            let count = taken.iter().filter(|&&key| is_of_session(key)).count();
            let is_as_expected = match self.contract.expected(session, program, event) {
                Expected::Recorded => count == 1,
                Expected::NotRecorded => count == 0,
                Expected::Anything => count <= 1,
            };
            assert!(
                is_as_expected,
                "session {session} has {count} records of {event:?} ({}) of program {}: {}",
                emission.number,
                program.id.pid,
                self.contract.describe(session, program)
            );
        }
        self.figures.events += 1;
        self.tell(&format!(
            "event {} of {} in {taken:?}",
            self.last_number, self.programs[place].id.pid
        ));
    }

    fn let_program_obey(&mut self) {
        let Some(place) = self.a_program() else { return };
        let most = self.dice.u32(1..8);
        match self.dice.u32(..40) {
            0 => self.programs[place].load(),
            1 => self.programs[place].unload(&mut self.dice),
            _ => {}
        }
        if self.programs[place].pipe.is_none() {
            self.connect(place);
        }
        self.programs[place].announce();
        for _ in 0..most {
            let pid = self.programs[place].id.pid;
            match self.programs[place].obey() {
                Some(message) => self.tell(&format!("{pid} obeys {message:?}")),
                None => break,
            }
        }
    }

    fn connect(&mut self, place: usize) {
        if let Some(pisted) = &mut self.pisted {
            let program = &mut self.programs[place];
            let pipe = program.connect();
            pisted.accept(program.id, pipe);
        }
    }

    fn start_program(&mut self) {
        if self.living().len() < PROGRAMS_MAX {
            self.last_pid += 1;
            // No process has such an id: nothing depends on the machine.
            self.programs.push(Program::new(i32::MAX - self.last_pid));
            self.connect(self.programs.len() - 1);
        }
    }

    fn kill_program(&mut self) {
        if let Some(place) = self.a_program() {
            self.programs[place].die();
            self.tell(&format!("{} dies", self.programs[place].id.pid));
        }
    }

    fn let_thread_go_on(&mut self) {
        if let Some(place) = self.a_program() {
            self.programs[place].go_on(&mut self.truth);
        }
    }

    fn let_pisted_serve_program(&mut self) {
        let (which, most, living) = (self.dice.usize(..), self.dice.usize(1..6), self.living());
        if let Some(pisted) = &mut self.pisted {
            pisted.serve_program(which, most, &self.contract, &living);
        }
    }

    /// A consumer that is dead is replaced.
    fn let_pisted_serve_consumer(&mut self) {
        let (most, now) = (self.dice.usize(1..10), self.instant());
        let Some(pisted) = &mut self.pisted else { return };
        if !pisted.serve_consumer(most) && !pisted.is_killed {
            let (consumer, link) = ConsumerProcess::start(now);
            self.consumer = Some(consumer);
            disk::kill_after(None);
            pisted.replace_consumer(link);
        }
    }

    fn let_consumer_receive(&mut self) {
        let most = self.dice.usize(1..12);
        let fate = self.consumer.as_mut().map(|consumer| consumer.receive(most));
        self.note_fate(fate);
    }

    fn let_consumer_look(&mut self) {
        let which = self.dice.usize(..);
        let look = |consumer: &mut ConsumerProcess| match consumer.session_count() {
            0 => Fate::Lives,
            count => consumer.look(which % count),
        };
        let fate = self.consumer.as_mut().map(look);
        self.note_fate(fate);
    }

    fn note_fate(&mut self, fate: Option<Fate>) {
        if fate == Some(Fate::Killed) {
            self.consumer = None;
            self.figures.consumers_killed += 1;
            self.tell("the consumer is killed");
        }
    }

    fn kill_consumer(&mut self) {
        if self.consumer.is_none() {
            return;
        }
        match self.dice.u32(..4) {
            0 => self.note_fate(Some(Fate::Killed)),
            _ => disk::kill_after(Some(self.dice.u32(..12))),
        }
    }

    fn kill_pisted(&mut self) {
        let (steps, torn) = (self.dice.u32(..8), self.dice.f64());
        if let Some(pisted) = &mut self.pisted {
            pisted.kill_after(steps, torn);
        }
    }

    /// Where the one before was killed.
    fn start_pisted(&mut self) {
        if self.pisted.is_some() {
            return;
        }
        self.pisted_count += 1;
        let epoch = self.pisted_count << 32;
        let mut pisted = Pisted::start(&self.journal_path(), epoch);
        self.contract.restarted(pisted.machine.sessions().iter());
        let (living, now) = (self.living(), self.instant());
        match &mut self.consumer {
            Some(consumer) => {
                let mut link = consumer.connect();
                let belongings = Pisted::ask_adopted(&mut link, consumer);
                pisted.begin(link, Some(belongings), &living, now);
            }
            None => {
                let (consumer, link) = ConsumerProcess::start(self.instant());
                self.consumer = Some(consumer);
                disk::kill_after(None);
                pisted.begin(link, None, &living, now);
            }
        }
        self.pisted = Some(pisted);
        self.tell("pisted starts");
        self.learn();
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    fn change_disk(&mut self) {
        let moods = [Mood::Works, Mood::Works, Mood::Full, Mood::Broken];
        let mood = *self.dice.choice(&moods).expect("there are some");
        self.set_mood(mood);
    }

    fn set_mood(&mut self, mood: Mood) {
        self.mood = mood;
        disk::set_mood(mood);
        self.tell(&format!("the disk: {mood:?}"));
        self.note_cut();
    }

    /// Sessions that are being closed now may be cut.
    fn note_cut(&mut self) {
        if self.mood != Mood::Works {
            let closing = self
                .contract
                .sessions
                .iter()
                .filter(|(_, promise)| promise.is_closing());
            let unanswered = closing.filter(|(_, promise)| promise.totals.is_none());
            self.cut.extend(unanswered.map(|(&session, _)| session));
        }
    }

    /// What follows by itself from what was done.
    fn settle(&mut self) {
        let (now, living) = (self.instant(), self.living());
        if let Some(pisted) = &mut self.pisted {
            pisted.look_at_processes(&living);
            pisted.look_at_time(now);
        }
        self.learn();
        if let Some(pisted) = self.pisted.take_if(|pisted| pisted.is_killed) {
            pisted.bury();
            self.figures.pisteds_killed += 1;
        }
        if self.chance(64)
            && let Some(pisted) = &self.pisted
        {
            pisted.check_journal();
        }
        self.figures.steps += 1;
    }

    /// Takes note of what pisted did.
    fn learn(&mut self) {
        let Some(pisted) = &mut self.pisted else { return };
        let log = std::mem::take(&mut pisted.log);
        let changes = std::mem::take(&mut pisted.changes);
        let answers = std::mem::take(&mut pisted.answers);
        log.iter().for_each(|what| self.tell(what));
        let mut is_lost = false;
        for change in changes {
            match change {
                Change::RingSetAdded { key, ring_set } => self.truth.add(key, ring_set),
                Change::RingSetsLost { .. } => is_lost = true,
                Change::RingSetEnded { key } if is_lost => {
                    is_lost = false;
                    self.lose(key);
                }
                _ => {}
            }
        }
        for (command, answer) in answers {
            self.figures.rotations += u64::from(matches!(answer, Answer::Rotated));
            if let Answer::Flushed(session) = answer {
                let committed = self.flushes.remove(&command).unwrap_or_default();
                traces::check_flushed(
                    session,
                    &self.contract.sessions[&session].output,
                    &committed,
                    &self.truth,
                );
            }
            self.contract.answered(command, answer, &mut self.programs);
        }
    }

    /// Nobody has the memory of a ring set any more but its program.
    fn lose(&mut self, key: u32) {
        self.truth.lost.insert(key);
        self.figures.ring_sets_lost += 1;
        let session = self.truth.session_of(key);
        let id = self.truth.program_of(key);
        for program in self.programs.iter_mut().filter(|program| program.id == id) {
            program.seen.remove(&session);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        clock::set(None);
        disk::remove();
    }
}
