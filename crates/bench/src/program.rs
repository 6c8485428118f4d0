// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measured program that runs: requests and answers, as `measured/rounds.h` describes them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::processes::{Daemon, Patience};
use crate::report::RowClock;

/// The longest round takes a fraction of this.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
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
    /// Of the thread, or the mean of the threads.
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

/// The program. It ends by itself when nobody asks any more.
pub(crate) struct Program {
    daemon: Daemon,
    answers: Receiver<String>,
    patience: Patience,
}

impl Program {
    /// Starts it with this number of threads, and waits until it answers.
    pub(crate) fn start(mut command: Command, threads: u32, patience: &Patience) -> Result<Program, Error> {
        command
            .arg(threads.to_string())
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut daemon = Daemon::start(&mut command)?;
        let output = daemon.child().stdout.take().expect("it is piped");
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut program = Program {
            daemon,
            answers,
            patience: patience.clone(),
        };
        program.about()?;
        Ok(program)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    fn ask(&mut self, request: &str) -> Result<String, Error> {
        if self.patience.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let input = self.daemon.child().stdin.as_mut().expect("it is piped");
        if writeln!(input, "{request}").is_err() {
            return Err(self.daemon.ended());
        }
        let deadline = Instant::now() + ANSWER_PATIENCE;
        loop {
            match self.answers.recv_timeout(LOOK_FOR_INTERRUPTION) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(self.daemon.ended()),
                Err(RecvTimeoutError::Timeout) if self.patience.is_interrupted() => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    return Err(Error::new(format!(
                        "a measured program does not answer `{request}` after {} s",
                        ANSWER_PATIENCE.as_secs()
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// What it can count.
    pub(crate) fn about(&mut self) -> Result<About, Error> {
        let answer = self.ask("about")?;
        parse_about(&answer).ok_or_else(|| not_understood(&answer))
    }

    /// Records so many events, after a quarter as many that are not measured. What the processor counts is that of the program, so nothing is
    /// counted if the time is that of another process.
    pub(crate) fn round(&mut self, variant: &str, clock: RowClock, events: u64) -> Result<Round, Error> {
        let verb = match clock {
            RowClock::Cpu => "round",
            RowClock::Wall => "timed",
        };
        let answer = self.ask(&format!("{verb} {variant} {} {events}", events / WARM_UP_SHARE))?;
        parse_round(&answer, events).ok_or_else(|| not_understood(&answer))
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

    /// Measures single events.
    pub(crate) fn samples(&mut self, variant: &str, warm_up: u64, count: u64) -> Result<Vec<Sample>, Error> {
        let answer = self.ask(&format!("samples {variant} {warm_up} {count}"))?;
        let samples: Option<Vec<Sample>> = answer.split(' ').map(parse_sample).collect();
        let all = samples.filter(|samples| samples.len() as u64 == count);
        all.ok_or_else(|| not_understood(&answer[..answer.len().min(80)]))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.daemon.child().stdin.take());
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
