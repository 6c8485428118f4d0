// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers for which pieces are looked at one by one. Each has an end: there are only so many pieces for it, and it ends when nobody waits for it any
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use piste_timeline::{Failure, LaneId, Piece};

use crate::pages::{House, Refusal};
use crate::recordings::View;

/// Looked at for one answer: some seconds.
const PIECES_MAX: u64 = 50_000_000;

/// What is left of a walk over pieces.
pub(crate) struct Walk {
    left: u64,
    is_gone: Arc<AtomicBool>,
}

/// Who waits for an answer. When nobody does, an answer is dropped, but not the thread that looks for it: so that one asks.
#[derive(Default)]
pub(crate) struct Asker(Arc<AtomicBool>);

impl Asker {
    pub(crate) fn walk(&self) -> Walk {
        Walk {
            left: PIECES_MAX,
            is_gone: self.0.clone(),
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl House {
    /// As [`House::ask`], with a walk.
    pub(crate) async fn walk<T: Send + 'static>(
        self: &Arc<House>,
        number: usize,
        what: impl FnOnce(&View, &mut Walk) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Refusal> {
        let asker = Asker::default();
        let mut walk = asker.walk();
        self.ask(number, move |view| what(view, &mut walk)).await
    }
}

impl Walk {
    /// As [`View::each`]: `false` if the walk has ended before the last piece.
    pub(crate) fn each(
        &mut self,
        view: &View,
        lane: LaneId,
        range_ns: (i64, i64),
        mut take: impl FnMut(Piece),
    ) -> Result<bool, Failure> {
        view.each(lane, range_ns, &mut |piece| {
            take(piece);
            self.spend(1);
            self.goes_on()
        })
    }

    /// Something else was done, which takes as long as looking at so many pieces.
    pub(crate) fn spend(&mut self, pieces: u64) {
        self.left = self.left.saturating_sub(pieces);
    }

    pub(crate) fn goes_on(&self) -> bool {
        // Relaxed: the value is all there is.
        self.left > 0 && !self.is_gone.load(Ordering::Relaxed)
    }
}
