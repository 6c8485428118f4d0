// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers that have to wait: for programs to confirm what they were told, for the consumer to do what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::link::{ChannelTotals, Failure, RequestId};
use crate::session::{Pending, ProgramId};

/// How long programs may take to confirm. Those that do not are named in a finding.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(1);

/// What the consumer answered.
pub type Outcome = Result<Vec<ChannelTotals>, Failure>;

/// All that is being waited for; `Then` is what to do afterwards.
#[derive(Debug)]
pub struct Waiting<Then> {
    waits: Vec<Wait<Then>>,
}

#[derive(Debug)]
struct Wait<Then> {
    programs: BTreeSet<ProgramId>,
    token: u64,
    programs_until: Instant,
    requests: BTreeMap<RequestId, Option<Outcome>>,
    requests_until: Instant,
    then: Then,
}

/// What came out of a wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// Programs that did not confirm in time.
    pub silent: BTreeSet<ProgramId>,
    /// The consumer's answers, in the order of the requests.
    pub outcomes: Vec<Outcome>,
}

impl<Then> Default for Waiting<Then> {
    fn default() -> Waiting<Then> {
        Waiting { waits: Vec::new() }
    }
}

impl<Then> Waiting<Then> {
    /// Waits for what is pending, and for more requests; for the consumer at most `consumer_timeout`.
    pub fn add(
        &mut self,
        pending: Pending,
        requests: impl IntoIterator<Item = RequestId>,
        consumer_timeout: Duration,
        now: Instant,
        then: Then,
    ) {
        self.waits.push(Wait {
            programs: pending.programs,
            token: pending.token,
            programs_until: now + PROGRAM_TIMEOUT,
            requests: pending
                .request
                .into_iter()
                .chain(requests)
                .map(|request| (request, None))
                .collect(),
            requests_until: now + consumer_timeout,
            then,
        });
    }

    /// A program confirmed.
    pub fn confirmed(&mut self, program: ProgramId, token: u64) {
        for wait in self.waits.iter_mut().filter(|wait| wait.token <= token) {
            // Datagrams keep their order: a later token confirms the earlier ones.
            wait.programs.remove(&program);
        }
    }

    /// The consumer answered.
    pub fn done(&mut self, request: RequestId, outcome: Outcome) {
        if let Some(answer) = self.waits.iter_mut().find_map(|wait| wait.requests.get_mut(&request)) {
            *answer = Some(outcome);
        }
    }

    /// Takes the waits that are over. Programs that are not `connected` any more are not waited for.
    pub fn take_ended(&mut self, now: Instant, connected: impl Fn(ProgramId) -> bool) -> Vec<(Ended, Then)> {
        self.waits
            .iter_mut()
            .for_each(|wait| wait.programs.retain(|&program| connected(program)));
        self.waits
            .extract_if(.., |wait| wait.is_over(now))
            .map(Wait::end)
            .collect()
    }

    /// When the next wait is over, whatever happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.waits.iter().map(Wait::deadline).min()
    }
}

impl<Then> Wait<Then> {
    fn programs_over(&self, now: Instant) -> bool {
        self.programs.is_empty() || now >= self.programs_until
    }

    fn requests_over(&self, now: Instant) -> bool {
        self.requests.values().all(Option::is_some) || now >= self.requests_until
    }

    fn is_over(&self, now: Instant) -> bool {
        self.programs_over(now) && self.requests_over(now)
    }

    fn deadline(&self) -> Instant {
        let programs = (!self.programs.is_empty()).then_some(self.programs_until);
        let requests = self
            .requests
            .values()
            .any(Option::is_none)
            .then_some(self.requests_until);
        programs.max(requests).unwrap_or(self.programs_until)
    }

    fn end(self) -> (Ended, Then) {
        let no_answer = || Failure::Other {
            what: "it does not answer; its disk may be very slow".into(),
        };
        let outcomes = self
            .requests
            .into_values()
            .map(|answer| answer.unwrap_or_else(|| Err(no_answer())))
            .collect();
        (
            Ended {
                silent: self.programs,
                outcomes,
            },
            self.then,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ProgramId = ProgramId { pid: 7, instance_id: 1 };
    const BOB: ProgramId = ProgramId { pid: 8, instance_id: 1 };
    const LONG: Duration = Duration::from_secs(60);

    fn pending(programs: &[ProgramId], token: u64, request: Option<RequestId>) -> Pending {
        Pending {
            programs: programs.iter().copied().collect(),
            token,
            request,
        }
    }

    #[test]
    fn a_wait_is_over_when_all_have_answered() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.add(pending(&[ADA, BOB], 5, Some(1)), [2], LONG, now, "then");
        waiting.confirmed(ADA, 5);
        waiting.confirmed(BOB, 4);
        waiting.done(1, Ok(vec![]));
        assert!(waiting.take_ended(now, |_| true).is_empty());
        waiting.confirmed(BOB, 6);
        assert!(waiting.take_ended(now, |_| true).is_empty());
        waiting.done(2, Err(Failure::Other { what: "no".into() }));
        let ended = waiting.take_ended(now, |_| true);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].0.silent.is_empty());
        assert_eq!(
            ended[0].0.outcomes,
            [Ok(vec![]), Err(Failure::Other { what: "no".into() })]
        );
        assert_eq!(waiting.deadline(), None);
    }

    #[test]
    fn silent_programs_hold_nobody_up_for_more_than_a_second() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.add(pending(&[ADA], 5, None), [], LONG, now, ());
        assert_eq!(waiting.deadline(), Some(now + PROGRAM_TIMEOUT));
        assert!(waiting.take_ended(now, |_| true).is_empty());
        let ended = waiting.take_ended(now + PROGRAM_TIMEOUT, |_| true);
        assert_eq!(ended[0].0.silent, BTreeSet::from([ADA]));
    }

    #[test]
    fn a_program_that_left_is_not_waited_for() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.add(pending(&[ADA], 5, None), [], LONG, now, ());
        assert!(waiting.take_ended(now, |program| program != ADA)[0].0.silent.is_empty());
    }

    #[test]
    fn a_consumer_that_is_silent_becomes_a_failure() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.add(pending(&[], 5, Some(1)), [], LONG, now, ());
        assert_eq!(waiting.deadline(), Some(now + LONG));
        assert!(waiting.take_ended(now + LONG, |_| true)[0].0.outcomes[0].is_err());
    }
}
