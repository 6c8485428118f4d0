// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches the boards on which programs ring their bells (crates/ring/src/board.rs), for all sessions. While something records, one
//! thread compares the words of all boards every millisecond, and wakes the session threads whose programs have rung. An idle
//! program costs no more than the comparison of one word.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use piste_ring::{BELL_COUNT, Board};

use super::outbox::lock;
use super::worker::EndsWithProcess;
use crate::bell::Bell;
use crate::link::{BellPlace, RingSetKey, SessionId};

/// The boards and their listeners.
#[derive(Default)]
pub(crate) struct Watch {
    watched: Mutex<Watched>,
    /// The first listener is there.
    is_wanted: Condvar,
}

#[derive(Default)]
struct Watched {
    boards: BTreeMap<u32, Watching>,
    /// Bells with a listener.
    listener_count: usize,
    /// Of each session.
    intervals: BTreeMap<SessionId, Duration>,
}

struct Watching {
    board: Board,
    listeners: Vec<Option<Listener>>,
    /// No bell behind these has a listener.
    used_count: usize,
}

struct Listener {
    rung: Arc<Rung>,
    key: RingSetKey,
}

/// The ring sets of one session whose bells have rung.
#[derive(Debug)]
pub(crate) struct Rung {
    keys: Mutex<Vec<RingSetKey>>,
    bell: Bell,
}

/// Keeps listening to a bell until it is dropped.
pub(crate) struct Listening {
    watch: Arc<Watch>,
    place: BellPlace,
}

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be none.
    pub(crate) fn start() -> std::io::Result<Arc<Watch>> {
        let watch = Arc::<Watch>::default();
        let of_thread = watch.clone();
        thread::Builder::new().name("pisted-watch".into()).spawn(move || {
            let _whole = EndsWithProcess;
            of_thread.run();
        })?;
        Ok(watch)
    }

    /// Adds a board, unless it is known. A board that cannot be mapped is left out: [`Watch::listen`] then returns `None`.
    pub(crate) fn add_board(&self, number: u32, memory: &OwnedFd) {
        let mut watched = lock(&self.watched);
        if let std::collections::btree_map::Entry::Vacant(place) = watched.boards.entry(number)
            && let Ok(board) = Board::open(memory)
        {
            place.insert(Watching {
                board,
                listeners: Vec::new(),
                used_count: 0,
            });
        }
    }

    /// Compares the words at least this often for a session, so that rings which fill within twice the interval are looked at in time.
    pub(crate) fn look_each(&self, session: SessionId, interval: Duration) {
        let mut watched = lock(&self.watched);
        watched
            .intervals
            .entry(session)
            .and_modify(|known| *known = interval.min(*known))
            .or_insert(interval);
    }

    /// A session is closed.
    pub(crate) fn forget(&self, session: SessionId) {
        lock(&self.watched).intervals.remove(&session);
    }

    /// Puts `key` into `rung` whenever the bell is rung, until the result is dropped. `None` if there is no such board or bell.
    pub(crate) fn listen(self: &Arc<Self>, place: BellPlace, rung: &Arc<Rung>, key: RingSetKey) -> Option<Listening> {
        let mut watched = lock(&self.watched);
        let watching = watched.boards.get_mut(&place.board)?;
        let index = place.index as usize;
        if index >= BELL_COUNT {
            return None;
        }
        if watching.listeners.len() <= index {
            watching.listeners.resize_with(index + 1, || None);
        }
        watching.used_count = watching.used_count.max(index + 1);
        let rung = rung.clone();
        let before = watching.listeners[index].replace(Listener { rung, key });
        if before.is_none() {
            watched.listener_count += 1;
            self.is_wanted.notify_one();
        }
        Some(Listening {
            watch: self.clone(),
            place,
        })
    }

    fn run(&self) {
        loop {
            let mut watched = self.wait();
            watched.look();
            let interval = watched.intervals.values().min().copied();
            drop(watched);
            thread::sleep(interval.unwrap_or(Duration::from_millis(1)));
        }
    }

    /// Sleeps while nobody listens.
    fn wait(&self) -> MutexGuard<'_, Watched> {
        let watched = lock(&self.watched);
        let is_idle = |watched: &mut Watched| watched.listener_count == 0;
        self.is_wanted
            .wait_while(watched, is_idle)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn look(&mut self) {
        for watching in self.boards.values_mut() {
            let Watching {
                board,
                listeners,
                used_count,
            } = watching;
            board.look(*used_count, |index| {
                if let Some(Listener { rung, key }) = &listeners[index] {
                    rung.add(*key);
                }
            });
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let watched = &mut *lock(&self.watch.watched);
        let Some(watching) = watched.boards.get_mut(&self.place.board) else {
            return;
        };
        if watching.listeners[self.place.index as usize].take().is_some() {
            watched.listener_count -= 1;
        }
        while watching.used_count > 0 && watching.listeners[watching.used_count - 1].is_none() {
            watching.used_count -= 1;
        }
    }
}

impl Rung {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new() -> std::io::Result<Rung> {
        Ok(Rung {
            keys: Mutex::default(),
            bell: Bell::new()?,
        })
    }

    /// Readable while there are some.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The ring sets that rang since the last call. Look at their rings after this call, not before: what rings later is in the next one.
    pub(crate) fn take(&self) -> Vec<RingSetKey> {
        self.bell.silence();
        std::mem::take(&mut *lock(&self.keys))
    }

    fn add(&self, key: RingSetKey) {
        let mut keys = lock(&self.keys);
        keys.push(key);
        if keys.len() == 1 {
            self.bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use piste_ring::create_board;

    use super::*;

    fn ring(memory: &OwnedFd, index: u64) {
        rustix::io::pwrite(memory, &[1; 4], 4 * index).unwrap();
    }

    #[test]
    fn whoever_listens_is_told_what_rang_and_nobody_else_is() {
        let (memory, rung) = (create_board().unwrap(), Arc::new(Rung::new().unwrap()));
        let watch = Arc::new(Watch::default());
        let place = |index| BellPlace { board: 7, index };
        assert!(watch.listen(place(0), &rung, 1).is_none(), "there is no board");
        watch.add_board(7, &memory);
        let listening = [0, 5].map(|index| watch.listen(place(index), &rung, 10 + index).unwrap());
        assert!(watch.listen(place(BELL_COUNT as u32), &rung, 1).is_none());
        for index in [3, 5, 4000] {
            ring(&memory, index);
        }
        lock(&watch.watched).look();
        assert_eq!(rung.take(), [15]);
        let [first, second] = listening;
        drop(second);
        assert_eq!(lock(&watch.watched).boards[&7].used_count, 1);
        ring(&memory, 0);
        lock(&watch.watched).look();
        assert_eq!(rung.take(), [10]);
        drop(first);
        assert_eq!(lock(&watch.watched).listener_count, 0);
    }
}
