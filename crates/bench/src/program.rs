// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measured program that runs: requests and answers, as `measured/rounds.h` describes them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::processes::{Daemon, Patience};
use crate::report::RowClock;

/// The longest round takes a fraction of this.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
const LOOK_FOR_INTERRUPTION: Duration = Duration::from_millis(100);
/// How long the rounds take that show how many events the others may have.
const TRIAL_NS: u64 = 500_000;
const TRIAL_GROWTH: u64 = 8;
/// Of a round, so many events come before, unmeasured.
const WARM_UP_SHARE: u64 = 4;

/// What a round took, for all of its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Round {
    pub(crate) events: u64,
    /// Of the thread, or the mean of all threads that ran at the same time.
    pub(crate) cpu_ns: u64,
    pub(crate) wall_ns: u64,
    /// By the names of `counters.c`; the sum of the threads. The processor does not always count all of its events.
    pub(crate) counts: BTreeMap<String, f64>,
}

/// How long one event took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) ns: f64,
    /// It was long, and another thread or an interrupt came since the long one before it.
    pub(crate) is_interrupted: bool,
}

/// What a program can count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct About {
    /// How often the clock of the samples ticks.
    pub(crate) tick_hz: f64,
    pub(crate) counters: Vec<String>,
    /// Why others are missing.
    pub(crate) lack: Option<String>,
}

/// The program: one process, or several that run their rounds at the same time. They end by themselves when nobody asks any more.
pub(crate) struct Program {
    processes: Vec<Process>,
    patience: Patience,
}

struct Process {
    daemon: Daemon,
    answers: Receiver<String>,
}

impl Program {
    /// Starts it with this number of threads, and waits until it answers.
    pub(crate) fn start(mut command: Command, threads: u32, patience: &Patience) -> Result<Program, Error> {
        let mut program = Program {
            processes: vec![Process::start(command.arg(threads.to_string()))?],
            patience: patience.clone(),
        };
        program.about()?;
        Ok(program)
    }

    /// Starts several processes of one thread each. `meeting` is an empty file, and of no use any more when all have started.
    pub(crate) fn start_together(
        commands: Vec<Command>,
        meeting: &Path,
        patience: &Patience,
    ) -> Result<Program, Error> {
        let count = commands.len().to_string();
        let mut program = Program {
            processes: Vec::new(),
            patience: patience.clone(),
        };
        for (index, mut command) in commands.into_iter().enumerate() {
            command.arg("1").arg(meeting).args([&index.to_string(), &count]);
            program.processes.push(Process::start(&mut command)?);
            program.about()?;
        }
        Ok(program)
    }

    /// The process id, of the first one.
    pub(crate) fn pid(&self) -> u32 {
        self.processes[0].daemon.pid()
    }

    /// Asks all processes at once.
    fn ask(&mut self, request: &str) -> Result<Vec<String>, Error> {
        if self.patience.is_interrupted() {
            return Err(Error::Interrupted);
        }
        for process in &mut self.processes {
            let input = process.daemon.child().stdin.as_mut().expect("it is piped");
            if writeln!(input, "{request}").is_err() {
                return Err(process.daemon.ended());
            }
        }
        let deadline = Instant::now() + ANSWER_LIMIT;
        let answers = self.processes.iter_mut();
        answers
            .map(|process| process.answer(request, deadline, &self.patience))
            .collect()
    }

    /// What it can count.
    pub(crate) fn about(&mut self) -> Result<About, Error> {
        let answer = self.ask("about")?.swap_remove(0);
        parse_about(&answer).ok_or_else(|| not_understood(&answer))
    }

    /// Records so many events, after a quarter as many that are not measured. What the processor counts is that of the program, so nothing is
    /// counted if the time is that of another process.
    pub(crate) fn round(&mut self, variant: &str, clock: RowClock, events: u64) -> Result<Round, Error> {
        let verb = match clock {
            RowClock::Cpu => "round",
            RowClock::Wall => "timed",
        };
        let answers = self.ask(&format!("{verb} {variant} {} {events}", events / WARM_UP_SHARE))?;
        let round = |answer: &String| parse_round(answer, events).ok_or_else(|| not_understood(answer));
        Ok(together(&answers.iter().map(round).collect::<Result<Vec<_>, _>>()?))
    }

    /// How many events take about so long; at most `limit`.
    pub(crate) fn events_in(
        &mut self,
        variant: &str,
        clock: RowClock,
        round_ns: u64,
        limit: u64,
    ) -> Result<u64, Error> {
        let mut events = 8.min(limit);
        loop {
            // The quicker one counts: what takes the CPU away in one must not decide how short all rounds are.
            let (one, other) = (self.round(variant, clock, events)?, self.round(variant, clock, events)?);
            let wall_ns = one.wall_ns.min(other.wall_ns);
            if wall_ns >= TRIAL_NS || events == limit {
                let wanted = events as f64 * round_ns as f64 / wall_ns.max(1) as f64;
                return Ok((wanted as u64).clamp(1, limit));
            }
            events = (events * TRIAL_GROWTH).min(limit);
        }
    }

    /// Measures single events, of the first process.
    pub(crate) fn samples(&mut self, variant: &str, warm_up: u64, count: u64) -> Result<Vec<Sample>, Error> {
        let answer = self
            .ask(&format!("samples {variant} {warm_up} {count}"))?
            .swap_remove(0);
        let samples: Option<Vec<Sample>> = answer.split(' ').map(parse_sample).collect();
        let all = samples.filter(|samples| samples.len() as u64 == count);
        all.ok_or_else(|| not_understood(&answer[..answer.len().min(80)]))
    }
}

impl Process {
    fn start(command: &mut Command) -> Result<Process, Error> {
        // What somebody preloads into all programs is not measured.
        if !command.get_envs().any(|(name, _)| name == "LD_PRELOAD") {
            command.env_remove("LD_PRELOAD");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = Daemon::start(command)?;
        let output = daemon.child().stdout.take().expect("it is piped");
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Process { daemon, answers })
    }

    fn answer(&mut self, request: &str, deadline: Instant, patience: &Patience) -> Result<String, Error> {
        loop {
            match self.answers.recv_timeout(LOOK_FOR_INTERRUPTION) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(self.daemon.ended()),
                Err(RecvTimeoutError::Timeout) if patience.is_interrupted() => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    return Err(Error::new(format!(
                        "a measured program did not answer `{request}` within {} s",
                        ANSWER_LIMIT.as_secs()
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.daemon.child().stdin.take());
    }
}

/// Of rounds that ran at the same time: the mean of the times, and what all of them counted, as far as each did.
fn together(rounds: &[Round]) -> Round {
    let mean = |ns: fn(&Round) -> u64| rounds.iter().map(ns).sum::<u64>() / rounds.len().max(1) as u64;
    let counted = rounds.first().into_iter().flat_map(|round| round.counts.keys());
    let sum = |name: &String| {
        let counts = rounds.iter().map(|round| round.counts.get(name).copied());
        Some((name.clone(), counts.sum::<Option<f64>>()?))
    };
    Round {
        events: rounds.first().map_or(0, |round| round.events),
        cpu_ns: mean(|round| round.cpu_ns),
        wall_ns: mean(|round| round.wall_ns),
        counts: counted.filter_map(sum).collect(),
    }
}

fn not_understood(answer: &str) -> Error {
    Error::new(format!("a measured program answered {answer:?}"))
}

fn parse_about(answer: &str) -> Option<About> {
    let (known, lack) = match answer.split_once(" - ") {
        Some((known, lack)) => (known, Some(lack.to_owned())),
        None => (answer, None),
    };
    let mut words = known.split(' ');
    Some(About {
        tick_hz: words.next()?.parse().ok()?,
        counters: words.map(str::to_owned).collect(),
        lack,
    })
}

fn parse_round(answer: &str, events: u64) -> Option<Round> {
    let mut words = answer.split(' ');
    let (cpu_ns, wall_ns) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let count = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Some(Round {
        events,
        cpu_ns,
        wall_ns,
        counts: words.map(count).collect::<Option<_>>()?,
    })
}

fn parse_sample(word: &str) -> Option<Sample> {
    let number = word.strip_suffix('!');
    Some(Sample {
        ns: number.unwrap_or(word).parse().ok()?,
        is_interrupted: number.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_several_processes_are_joined() {
        let round = |answer| parse_round(answer, 100).expect("an answer");
        let rounds = [round("80 100 waits=1 cycles=300"), round("40 200 waits=2")];
        let joined = together(&rounds);
        assert_eq!((joined.events, joined.cpu_ns, joined.wall_ns), (100, 60, 150));
        assert_eq!(joined.counts, [("waits".to_owned(), 3.0)].into());
    }

    #[test]
    fn answers_are_read_as_programs_write_them() {
        let round = parse_round("8000 8100 preemptions=1 cycles=24000", 100).expect("an answer");
        assert_eq!((round.cpu_ns, round.wall_ns, round.events), (8000, 8100, 100));
        assert_eq!(round.counts["cycles"], 24000.0);
        for wrong in ["", "8000", "8000 8100 cycles", "a b"] {
            assert_eq!(parse_round(wrong, 1), None, "{wrong}");
        }
        let about = parse_about("2400000000 waits page_faults - there is no unit").expect("an answer");
        assert_eq!(about.counters, ["waits", "page_faults"]);
        assert_eq!(about.lack.as_deref(), Some("there is no unit"));
        assert_eq!(parse_about("2400000000 waits").expect("an answer").lack, None);
        let interrupted = Sample {
            ns: 1200.5,
            is_interrupted: true,
        };
        assert_eq!(parse_sample("1200.5!"), Some(interrupted));
        assert_eq!(parse_sample("12.0").map(|sample| sample.is_interrupted), Some(false));
        assert_eq!(parse_sample("!"), None);
    }
}
