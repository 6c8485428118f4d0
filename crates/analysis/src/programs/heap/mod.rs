// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heaps of programs: how much lived at once, how much was asked for, what was never given back, and who asked for it.
//!
//! Memory grows with the number of blocks that live at one time.
//!
//! Where events are missing, a block may have been given back: of what was taken before and is not seen to be given back, nobody knows.

mod tables;

use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{Place, Resolve};
use super::images::{ImageId, Images};
use super::{Description, Event, Outcome, ProgramAnalysis};
use crate::analyses::LIMIT;
use crate::analysis::{Need, Options};
use crate::facts::ProgramFact;
use crate::measure::Distribution;
use crate::process_gaps::{Lost, ProcessGaps};
use crate::report::{Report, counted};

pub(super) static HEAP: Description = Description {
    name: "heap",
    about: "how much memory programs allocated and held, and what they never freed, by caller",
    tables: &["processes", "leaks", "callers", "sizes"],
    needs: &[
        Need {
            any_of: &["lttng_ust_libc:*"],
            what: "allocations",
            option: "--no-kernel --preload libc-callers",
            is_essential: true,
        },
        Need {
            any_of: &["lttng_ust_libc:free"],
            what: "what was freed",
            option: "--no-kernel --preload libc-callers",
            is_essential: false,
        },
        Need {
            any_of: &["lttng_ust_statedump:bin_info"],
            what: "which code called",
            option: "--no-kernel --preload libc-callers",
            is_essential: false,
        },
    ],
    begin: |options| {
        Box::new(Heap {
            options: options.clone(),
            gaps: ProcessGaps::default(),
            asked_from_ns: i64::MIN,
            programs: FxHashMap::default(),
            callers: Vec::new(),
            caller_ids: FxHashMap::default(),
            sizes: Distribution::default(),
            without_caller: 0,
        })
    },
};

struct Heap {
    options: Options,
    gaps: ProcessGaps,
    asked_from_ns: i64,
    programs: FxHashMap<ImageId, OfProgram>,
    callers: Vec<OfCaller>,
    caller_ids: FxHashMap<(ImageId, Option<Place>), CallerId>,
    /// Of all that was asked for.
    sizes: Distribution,
    without_caller: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallerId(u32);

/// The heap of a program.
#[derive(Default)]
struct OfProgram {
    blocks: FxHashMap<u64, Block>,
    /// Addresses that were given out again, while the `realloc` of another thread that gave them up had not said so: to whom, and when.
    taken_over: FxHashMap<u64, (Option<i64>, i64)>,
    /// When threads last said something, while there are such addresses.
    told_ns: FxHashMap<Option<i64>, i64>,
    live: Amount,
    /// Of that, what was taken before events are missing.
    unsure: Amount,
    peak_bytes: u64,
    peak_ns: Option<i64>,
    asked: Amount,
    largest_bytes: u64,
    freed: u64,
    unknown_freed: u64,
    failed: u64,
    first_ns: Option<i64>,
    last_ns: i64,
}

/// Memory that lives.
#[derive(Clone, Copy)]
struct Block {
    bytes: u64,
    taken_ns: i64,
    /// `None` of what is not asked about.
    caller: Option<CallerId>,
}

/// Blocks, and how much is in them.
#[derive(Clone, Copy, Default)]
struct Amount {
    count: u64,
    bytes: u64,
}

struct OfCaller {
    image: ImageId,
    place: Option<Place>,
    asked: Amount,
    live: Amount,
    /// Of that, what was taken before events are missing.
    unsure: Amount,
    largest_bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn take(&mut self, bytes: u64) {
        self.count -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn merge(&mut self, other: Amount) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn without(self, other: Amount) -> Amount {
        Amount {
            count: self.count - other.count,
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl ProgramAnalysis for Heap {
    fn lose(&mut self, lost: &Lost<'_>) -> bool {
        let matters = lost.may_be(|class| class.starts_with("lttng_ust_libc:"));
        if matters {
            self.gaps.add(lost);
        }
        matters
    }

    fn fact(&mut self, fact: &ProgramFact<'_>, event: &Event<'_>, images: &Images, _: &mut dyn Resolve) {
        match *fact {
            ProgramFact::Allocated { address: 0, .. } => self.fail(event),
            ProgramFact::Allocated { address, bytes } => self.allocate(address, bytes, event, images),
            // What `realloc` makes of no bytes is nobody's any more.
            ProgramFact::Reallocated {
                from,
                address: 0,
                bytes: 0,
            } => self.free(from, event),
            ProgramFact::Reallocated { address: 0, .. } => self.fail(event),
            ProgramFact::Reallocated { from, address, bytes } => {
                let program = self.program(event);
                match program.is_late(from, event) {
                    true => _ = program.taken_over.remove(&from),
                    false => self.free(from, event),
                }
                self.allocate(address, bytes, event, images);
            }
            ProgramFact::Freed { address } => self.free(address, event),
            _ => return,
        }
        let program = self.program(event);
        match program.taken_over.is_empty() {
            true => program.told_ns.clear(),
            false => _ = program.told_ns.insert(event.tid, event.ns),
        }
    }

    fn report(&mut self, images: &Images, resolve: &mut dyn Resolve) -> Result<Outcome, String> {
        let torn = self.find_unsure(images);
        let callers = self.named_callers(images, resolve);
        let mut notes = Vec::from_iter(counted(
            torn.len() as u64,
            "process lost events: memory that it allocated before may have been freed, it may have allocated more than shown, and its peak is \
             unknown (see `piste stats`)",
            "processes lost events: memory that they allocated before may have been freed, they may have allocated more than shown, and their peak \
             is unknown (see `piste stats`)",
        ));
        if self.without_caller > 0 {
            notes.push(
                "this trace has no `ip`, so the results do not show who allocated memory; `piste record --no-kernel --preload libc-callers -o DIR -- CMD` records it"
                    .to_owned(),
            );
        }
        Ok(Outcome {
            report: Report {
                tables: vec![
                    self.processes(images, &torn),
                    self.never_freed(&callers),
                    self.all_callers(callers),
                    self.by_size(),
                ],
                notes,
            },
            paths: Vec::new(),
        })
    }
}

impl OfProgram {
    /// A `realloc` gave an address up before another thread was given it, and says so only now. What its thread said since, it would have said
    /// afterwards.
    fn is_late(&self, from: u64, event: &Event<'_>) -> bool {
        self.taken_over.get(&from).is_some_and(|(tid, ns)| {
            let has_said = |told_ns: &i64| told_ns > ns;
            *tid != event.tid && !self.told_ns.get(&event.tid).is_some_and(has_said)
        })
    }
}

impl Heap {
    /// Programs that lost events while they are asked about; and of every one what lives, unless it was given back where events are missing.
    fn find_unsure(&mut self, images: &Images) -> FxHashSet<ImageId> {
        let mut torn = FxHashSet::default();
        for (image, program) in &mut self.programs {
            let is_torn_since = |ns: i64| self.gaps.lie_within(ns, i64::MAX, images.get(*image).pid);
            if !is_torn_since(i64::MIN) {
                continue;
            }
            if program.first_ns.is_some() && is_torn_since(self.asked_from_ns) {
                torn.insert(*image);
            }
            for block in program.blocks.values().filter(|block| is_torn_since(block.taken_ns)) {
                let Some(caller) = block.caller else { continue };
                program.unsure.add(block.bytes);
                self.callers[caller.0 as usize].unsure.add(block.bytes);
            }
        }
        torn
    }

    fn program(&mut self, event: &Event<'_>) -> &mut OfProgram {
        self.asked_from_ns = event.asked_from_ns;
        let program = self.programs.entry(event.image).or_default();
        if event.is_meant {
            program.first_ns.get_or_insert(event.ns);
            program.last_ns = event.ns;
        }
        program
    }

    fn fail(&mut self, event: &Event<'_>) {
        self.program(event).failed += u64::from(event.is_meant);
    }

    fn allocate(&mut self, address: u64, bytes: u64, event: &Event<'_>, images: &Images) {
        let caller = event.is_meant.then(|| self.caller(event, images));
        if let Some(old) = self.program(event).blocks.get(&address).copied() {
            // It was given back where events are missing, if there are such; else by a `realloc` that has not said so yet.
            let is_torn = self.gaps.lie_within(old.taken_ns, event.ns, event.pid);
            let taken_over = &mut self.program(event).taken_over;
            match is_torn {
                true => _ = taken_over.remove(&address),
                false => _ = taken_over.insert(address, (event.tid, event.ns)),
            }
            self.remove(address, event);
        }
        let program = self.program(event);
        let taken_ns = event.ns;
        program.blocks.insert(
            address,
            Block {
                bytes,
                taken_ns,
                caller,
            },
        );
        let Some(caller) = caller else { return };
        program.asked.add(bytes);
        program.largest_bytes = program.largest_bytes.max(bytes);
        program.live.add(bytes);
        if program.live.bytes > program.peak_bytes {
            program.peak_bytes = program.live.bytes;
            program.peak_ns = Some(event.ns);
        }
        let caller = &mut self.callers[caller.0 as usize];
        caller.asked.add(bytes);
        caller.live.add(bytes);
        caller.largest_bytes = caller.largest_bytes.max(bytes);
        self.sizes.add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn free(&mut self, address: u64, event: &Event<'_>) {
        if address == 0 {
            return;
        }
        self.program(event).taken_over.remove(&address);
        let is_known = self.remove(address, event);
        let program = self.program(event);
        if event.is_meant {
            program.freed += 1;
            program.unknown_freed += u64::from(!is_known);
        }
    }

    /// A block is gone; false when it is not known.
    fn remove(&mut self, address: u64, event: &Event<'_>) -> bool {
        let program = self.program(event);
        let Some(block) = program.blocks.remove(&address) else {
            return false;
        };
        if let Some(caller) = block.caller {
            program.live.take(block.bytes);
            self.callers[caller.0 as usize].live.take(block.bytes);
        }
        true
    }

    fn caller(&mut self, event: &Event<'_>, images: &Images) -> CallerId {
        let address = event.caller.and_then(|caller| caller.address);
        self.without_caller += u64::from(address.is_none());
        let place = address.map(|address| images.place(event.image, address));
        let next = CallerId(self.callers.len() as u32);
        let id = *self.caller_ids.entry((event.image, place)).or_insert(next);
        if id == next {
            self.callers.push(OfCaller {
                image: event.image,
                place,
                asked: Amount::default(),
                live: Amount::default(),
                unsure: Amount::default(),
                largest_bytes: 0,
            });
        }
        id
    }

    fn limit(&self) -> usize {
        self.options.limit.unwrap_or(LIMIT)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/programs/heap/tests.rs"]
mod tests;
