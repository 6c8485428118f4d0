// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guesses what the next event is: of the class that followed this one's the last time. Of a guess it is known how long the event is before its
//! id has been read: the processor goes on to the one behind it, and the id only has to confirm it.

use super::{Ground, Shape};
use crate::read::plan::EventPlan;

/// Classes that share one guess worse.
const SLOTS: usize = 256;

/// What followed which class.
#[derive(Debug)]
pub(in crate::read) struct Guesses<'p> {
    after: [Option<Guess<'p>>; SLOTS],
}

/// What an event may be. It fills a line of the cache, so that a shift finds it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Guess<'p> {
    /// The first eight bytes of an event have these bits under this mask if it is of this shape, and only then.
    mask: u64,
    bits: u64,
    shape: Shape<'p>,
    /// To the next header, when all events of this shape are of the same length; otherwise 0.
    stride: u32,
    /// Of what follows it.
    slot: u32,
}

/// A place between two events. Places are in bytes from where the ground begins.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct At {
    /// Behind the last byte of the one.
    pub(in crate::read) place: usize,
    /// Where the header of the other begins.
    start: usize,
    /// Of the other.
    slot: u32,
    pub(in crate::read) clock: u64,
}

impl At {
    pub(in crate::read) fn new(ground: &Ground<'_, '_>, place: usize, clock: u64) -> At {
        At {
            place,
            start: ground.start(place),
            slot: 0,
            clock,
        }
    }
}

impl Default for Guesses<'_> {
    fn default() -> Self {
        Guesses { after: [None; SLOTS] }
    }
}

impl<'p> Guesses<'p> {
    /// Over the next event, and of which class it is.
    #[inline(always)]
    pub(in crate::read) fn over<const BIG: bool>(
        &mut self,
        ground: &Ground<'p, '_>,
        at: At,
    ) -> Option<(&'p EventPlan, At)> {
        if let Some(guess) = &self.after[at.slot as usize % SLOTS]
            && ground.word::<BIG>(at.start)? & guess.mask == guess.bits
        {
            let leapt = ground.over::<BIG>(at.start, &guess.shape, at.clock)?;
            let next = At {
                place: leapt.end,
                start: match guess.stride {
                    0 => ground.start(leapt.end),
                    stride => at.start + stride as usize,
                },
                slot: guess.slot,
                clock: leapt.ticks,
            };
            return Some((guess.shape.class, next));
        }
        self.learn::<BIG>(ground, at)
    }

    #[inline]
    fn learn<const BIG: bool>(&mut self, ground: &Ground<'p, '_>, at: At) -> Option<(&'p EventPlan, At)> {
        let (shape, leapt) = ground.leap::<BIG>(at.start, at.clock)?;
        let slot = (shape.class.number % SLOTS) as u32;
        if let Some(mask) = shape.form.id_mask {
            let stride = match shape.bytes {
                0 => 0,
                bytes => ground.start(at.start + bytes as usize) - at.start,
            };
            self.after[at.slot as usize % SLOTS] = Some(Guess {
                mask,
                bits: ground.word::<BIG>(at.start)? & mask,
                shape,
                stride: stride as u32,
                slot,
            });
        }
        let next = At {
            place: leapt.end,
            start: ground.start(leapt.end),
            slot,
            clock: leapt.ticks,
        };
        Some((shape.class, next))
    }
}
