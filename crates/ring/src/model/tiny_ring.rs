// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tiny ring in ordinary memory. Under loom this file takes the place of `mapping.rs`.

use std::sync::Arc;

use crate::atomic::{AtomicU8, AtomicU32, AtomicU64};
use crate::geometry::{Geometry, LossMode};
use crate::layout::{Ring, RingHeader, Subbuf};
use crate::model::Writer;
use crate::reader::Reader;
use crate::window;

/// One ring of `subbuf_count` sub-buffers with `subbuf_units` units each, of which the first is the packet header.
pub struct TinyRing {
    memory: Arc<Mapping>,
}

impl TinyRing {
    /// An empty ring.
    pub fn new(loss: LossMode, subbuf_count: usize, subbuf_units: usize) -> Self {
        let units = subbuf_count * subbuf_units;
        Self {
            memory: Arc::new(Mapping {
                geometry: Geometry::of_model(loss),
                active_key: AtomicU32::new(1),
                header: RingHeader::default(),
                subbufs: (0..subbuf_count).map(|_| Subbuf::default()).collect(),
                marks: (0..units).map(|_| AtomicU8::new(0)).collect(),
                data: (0..units).map(|_| AtomicU64::new(0)).collect(),
            }),
        }
    }

    /// The reader, from the first sub-buffer on.
    pub fn reader(&self) -> Reader {
        Reader::new(self.memory.clone(), 0, 0)
    }

    /// Stops the program, as the consumer does.
    pub fn stop(&self) {
        window::stop(self.memory.active_key(), std::iter::once(self.memory.ring(0)));
    }

    /// A thread of the program.
    pub fn writer(&self) -> Writer {
        Writer::new(self.memory.clone(), 0, 0)
    }
}

pub(crate) struct Mapping {
    geometry: Geometry,
    active_key: AtomicU32,
    header: RingHeader,
    subbufs: Vec<Subbuf>,
    marks: Vec<AtomicU8>,
    data: Vec<AtomicU64>,
}

impl Mapping {
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn active_key(&self) -> &AtomicU32 {
        &self.active_key
    }

    pub(crate) fn ring(&self, _index: u32) -> Ring<'_> {
        Ring {
            header: &self.header,
            subbufs: &self.subbufs,
            marks: &self.marks,
            data: &self.data,
        }
    }

    pub(crate) fn touch(&self, _index: u32) {}
}

/// Blocking is not modelled: loom takes sequentially consistent accesses for weaker ones.
pub(crate) fn futex_wake_all(_futex: &AtomicU32) {}

pub(crate) fn futex_wait(_futex: &AtomicU32, _seen: u32, _timeout_us: u32) -> bool {
    false
}
