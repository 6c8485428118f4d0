// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session has that control must be able to ask for at any time, also while the session's thread waits for a disk.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outbox::Outbox;
use crate::link::{RequestId, RingSetKey, SessionId, ToControl};

/// How long whoever asks for a confirmation waits for a session that waits for its disk.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// What a session is asked, which it cannot answer while it waits for its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// What it recorded and lost.
    Totals,
    /// The same, of a session that has done what it was told before.
    Confirmation,
}

impl Question {
    /// How long whoever asks waits for the answer of a session that is held up.
    fn patience(self) -> Duration {
        match self {
            Question::Totals => Duration::ZERO,
            Question::Confirmation => CONFIRMED_WITHIN,
        }
    }
}

/// Kept by the thread that listens to control and by the session's.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) is_started: bool,
    /// Its memory, which control may have to hand to programs again.
    ring_sets: BTreeMap<RingSetKey, RingSet>,
    /// What nobody has answered, and when it was asked.
    questions: BTreeMap<RequestId, (Question, Instant)>,
}

#[derive(Debug)]
struct RingSet {
    memory: Arc<OwnedFd>,
    /// A record of the living program was given up.
    is_recovered: bool,
}

impl Held {
    /// Control has sent memory.
    pub(crate) fn add(&mut self, key: RingSetKey, memory: Arc<OwnedFd>) {
        let is_recovered = false;
        self.ring_sets.entry(key).or_insert(RingSet { memory, is_recovered });
    }

    pub(crate) fn has(&self, key: RingSetKey) -> bool {
        self.ring_sets.contains_key(&key)
    }

    /// Control asks something.
    pub(crate) fn ask(&mut self, request: RequestId, question: Question, now: Instant) {
        self.questions.insert(request, (question, now));
    }

    /// The questions that do not wait any longer for a session that is held up. Whoever takes them answers them.
    pub(crate) fn take_impatient(&mut self, now: Instant) -> BTreeMap<RequestId, Question> {
        let mut taken = BTreeMap::new();
        self.questions.retain(|&request, &mut (question, asked)| {
            let waits = now.saturating_duration_since(asked) < question.patience();
            if !waits {
                taken.insert(request, question);
            }
            waits
        });
        taken
    }

    /// Whether a question is still to be answered, by whoever calls this.
    pub(crate) fn take(&mut self, request: RequestId) -> bool {
        self.questions.remove(&request).is_some()
    }

    pub(crate) fn is_asked(&self) -> bool {
        !self.questions.is_empty()
    }

    /// The session tells control something.
    pub(super) fn note(&mut self, message: &ToControl) {
        match message {
            ToControl::RingSetDone { key } | ToControl::RingSetRefused { key, .. } => {
                self.ring_sets.remove(key);
            }
            ToControl::RingRecovered { key } => {
                if let Some(ring_set) = self.ring_sets.get_mut(key) {
                    ring_set.is_recovered = true;
                }
            }
            _ => {}
        }
    }

    /// Tells a new control process.
    pub(crate) fn tell(&self, session: SessionId, outbox: &Outbox) {
        let started = self.is_started;
        outbox.send(&ToControl::AdoptedSession { session, started });
        for (&key, ring_set) in &self.ring_sets {
            let memory = Some(ring_set.memory.clone());
            outbox.send_with(&ToControl::AdoptedRingSet { session, key }, memory);
            if ring_set.is_recovered {
                outbox.send(&ToControl::RingRecovered { key });
            }
        }
    }
}
