// SPDX-License-Identifier: MIT OR Apache-2.0
//! What control remembers about the consumer of a domain: the living one, or when the next is started, and what it has not answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::consumer::{Consumer, Remains};
use crate::link::{Domain, RequestId, ToConsumer};

/// A consumer that lives shorter than this died of something that its successor may die of too.
const LIFE_MIN: Duration = Duration::from_secs(1);
/// Those that died young in a row before there is a pause. Until then nobody else has the programs' rings but this process.
const EARLY_DEATH_COUNT_MAX: u32 = 5;
/// Before the next one is started then.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// The consumer of a domain, as control sees it.
#[derive(Debug)]
pub struct Keeper {
    /// The living one.
    pub consumer: Option<Consumer>,
    /// Whether there is to be one: of the kernel's domain from its first use on.
    pub is_wanted: bool,
    /// Why there can be none.
    pub hindrance: Option<String>,
    /// Requests without an answer, to be repeated to a new consumer.
    pub unanswered: BTreeMap<RequestId, ToConsumer>,
    /// Earlier ones that are dead and may not be gone.
    pub remains: Vec<Remains>,
    /// The loop waits for room to write to it.
    pub is_polled_for_writing: bool,
    started: Instant,
    /// When the next one is started, while there is none.
    planned: Instant,
    /// Those that lived only shortly, in a row.
    early_death_count: u32,
}

impl Keeper {
    /// One that has no consumer yet.
    pub fn new(is_wanted: bool) -> Keeper {
        let now = Instant::now();
        Keeper {
            consumer: None,
            is_wanted,
            hindrance: None,
            unanswered: BTreeMap::new(),
            remains: Vec::new(),
            is_polled_for_writing: false,
            started: now,
            planned: now,
            early_death_count: 0,
        }
    }

    /// When a new consumer is to be started, if one is.
    pub fn planned(&self) -> Option<Instant> {
        (self.consumer.is_none() && self.is_wanted && self.hindrance.is_none()).then_some(self.planned)
    }

    /// One is being started.
    pub fn begin(&mut self) {
        self.started = Instant::now();
        self.is_polled_for_writing = false;
    }

    /// The processes of earlier ones that are dead and not gone.
    pub fn predecessors(&mut self) -> Vec<i32> {
        self.remains.retain_mut(|remains| remains.pid().is_some());
        self.remains.iter_mut().filter_map(Remains::pid).collect()
    }

    /// It could not be started.
    pub fn put_off(&mut self) {
        self.planned = Instant::now() + RESTART_PAUSE;
    }

    /// It died: the next one is planned.
    pub fn note_death(&mut self) {
        let died_young = self.started.elapsed() < LIFE_MIN;
        self.early_death_count = if died_young { self.early_death_count + 1 } else { 0 };
        let pause = if self.dies_again_and_again() {
            RESTART_PAUSE
        } else {
            Duration::ZERO
        };
        self.planned = Instant::now() + pause;
    }

    /// Whether those who wait for an answer wait in vain.
    pub fn dies_again_and_again(&self) -> bool {
        self.early_death_count >= EARLY_DEATH_COUNT_MAX
    }
}

/// The keepers of both domains.
#[derive(Debug)]
pub struct Keepers {
    user: Keeper,
    kernel: Keeper,
}

impl Default for Keepers {
    /// The programs' consumer is always there, the kernel's when it is needed.
    fn default() -> Keepers {
        Keepers {
            user: Keeper::new(true),
            kernel: Keeper::new(false),
        }
    }
}

impl Keepers {
    /// That of a domain.
    pub fn of(&self, domain: Domain) -> &Keeper {
        match domain {
            Domain::User => &self.user,
            Domain::Kernel => &self.kernel,
        }
    }

    /// That of a domain.
    pub fn of_mut(&mut self, domain: Domain) -> &mut Keeper {
        match domain {
            Domain::User => &mut self.user,
            Domain::Kernel => &mut self.kernel,
        }
    }

    /// When the next consumer of any domain is to be started, or one to be looked at.
    pub fn deadline(&self) -> Option<Instant> {
        let of = |keeper: &Keeper| [keeper.planned(), keeper.consumer.as_ref().and_then(Consumer::next_look)];
        [of(&self.user), of(&self.kernel)].into_iter().flatten().flatten().min()
    }
}
