// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to devices, from the queue to their completion.
//!
//! A request is known by its device and its first sector, which no other one has while it is under way. A device may do it in parts, the
//! first sectors first.

use rustc_hash::FxHashMap;

use super::state::ThreadId;
use super::{At, Listen, System};
use crate::facts::{DeviceOperation, RequestFact, RequestStep};
use crate::names::Name;

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device's number: [`System::device_name`] is its name.
    pub device: u32,
    /// What it is asked for.
    pub operation: DeviceOperation,
    /// Where it begins, in sectors of 512 bytes.
    pub sector: u64,
    /// How much.
    pub bytes: u64,
    /// Who asked, if that is known: often the kernel, on behalf of who wrote long ago.
    pub thread: Option<ThreadId>,
    /// When it was put into the queue, if that is in the trace.
    pub queued_ns: Option<i64>,
    /// When the driver got it.
    pub issued_ns: i64,
    /// When it was complete, if that is in the trace.
    pub completed_ns: Option<i64>,
    /// Why the device could not do it; 0 when it could.
    pub error: i32,
}

impl Request {
    /// How long it waited for the driver.
    pub fn queue_ns(&self) -> Option<i64> {
        self.queued_ns.map(|queued_ns| self.issued_ns - queued_ns)
    }

    /// How long the device took.
    pub fn device_ns(&self) -> Option<i64> {
        self.completed_ns.map(|completed_ns| completed_ns - self.issued_ns)
    }
}

/// More are not under way at one time; what is there beyond that has been completed where nobody saw it.
const REQUESTS_MAX: usize = 1 << 14;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    queued: FxHashMap<Place, Queued>,
    issued: FxHashMap<Place, Issued>,
    /// Names of devices.
    devices: FxHashMap<u32, Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    device: u32,
    /// Those without sectors, which have no place, have the highest number.
    sector: u64,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    ns: i64,
    thread: Option<ThreadId>,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    request: Request,
    sectors_left: u32,
}

impl Place {
    /// `None` of requests that cannot be told from each other.
    fn of(fact: &RequestFact) -> Option<Place> {
        let sector = match (fact.sectors, fact.operation) {
            (0, DeviceOperation::Flush) => u64::MAX,
            (0, _) => return None,
            _ => fact.sector,
        };
        Some(Place {
            device: fact.device,
            sector,
        })
    }
}

impl System {
    /// The name of a device: `sda`, or `8:0` when the state dump does not have it.
    pub fn device_name(&self, device: u32) -> String {
        match self.requests.devices.get(&device) {
            Some(name) => self.names.text(*name).to_owned(),
            None => format!("{}:{}", device >> 20, device & 0xf_ffff),
        }
    }

    pub(super) fn dumped_device(&mut self, device: u32, name: &[u8]) {
        let name = self.names.keep(name);
        self.requests.devices.insert(device, name);
    }

    pub(super) fn request(&mut self, step: RequestStep, fact: &RequestFact, cpu: u32, at: &At, to: &mut dyn Listen) {
        let Some(place) = Place::of(fact) else { return };
        match step {
            RequestStep::Insert => {
                let thread = self.who_asks(fact, cpu, at, to);
                if self.requests.queued.len() >= REQUESTS_MAX {
                    self.requests.queued.clear();
                }
                self.requests.queued.insert(place, Queued { ns: at.ns, thread });
            }
            RequestStep::Issue => {
                let queued = self.requests.queued.remove(&place);
                let queued = queued.filter(|queued| self.circumstances.gaps.within(queued.ns, at.ns, None).is_none());
                let thread = match queued.and_then(|queued| queued.thread) {
                    Some(thread) => Some(thread),
                    None => self.who_asks(fact, cpu, at, to),
                };
                if self.requests.issued.len() >= REQUESTS_MAX {
                    self.give_up_requests(to);
                }
                let request = Request {
                    device: fact.device,
                    operation: fact.operation,
                    sector: fact.sector,
                    bytes: fact.bytes,
                    thread,
                    queued_ns: queued.map(|queued| queued.ns),
                    issued_ns: at.ns,
                    completed_ns: None,
                    error: 0,
                };
                let issued = Issued {
                    request,
                    sectors_left: fact.sectors,
                };
                if let Some(lost) = self.requests.issued.insert(place, issued) {
                    self.tell_request(&lost.request, to);
                }
            }
            RequestStep::Requeue => {
                if let Some(issued) = self.requests.issued.remove(&place) {
                    let queued = Queued {
                        ns: issued.request.queued_ns.unwrap_or(issued.request.issued_ns),
                        thread: issued.request.thread,
                    };
                    self.requests.queued.insert(place, queued);
                }
            }
            RequestStep::Merge => {
                self.requests.queued.remove(&place);
            }
            RequestStep::Complete => self.complete(place, fact, at, to),
        }
    }

    fn complete(&mut self, place: Place, fact: &RequestFact, at: &At, to: &mut dyn Listen) {
        let Some(mut issued) = self.requests.issued.remove(&place) else {
            return;
        };
        if fact.error != 0 {
            issued.request.error = fact.error;
        }
        if fact.sectors < issued.sectors_left {
            issued.sectors_left -= fact.sectors;
            let rest = Place {
                sector: place.sector + u64::from(fact.sectors),
                ..place
            };
            self.requests.issued.insert(rest, issued);
            return;
        }
        // Where events are missing, this may be the end of another one at the same place.
        let issued_ns = issued.request.issued_ns;
        let is_torn = self.circumstances.gaps.within(issued_ns, at.ns, None).is_some();
        if !is_torn {
            issued.request.completed_ns = Some(at.ns);
        }
        self.tell_request(&issued.request, to);
    }

    /// Who does what is said. What happens in an interrupt is nobody's.
    fn who_asks(&mut self, fact: &RequestFact, cpu: u32, at: &At, to: &mut dyn Listen) -> Option<ThreadId> {
        let current = self.current(cpu, at, to);
        if !self.cpu(cpu).stack.is_empty() {
            return None;
        }
        let thread = match fact.tid {
            Some(tid) => Some(self.thread_on(cpu, tid, at, to)),
            None => current,
        };
        thread.filter(|id| self.threads[id.index()].tid != 0)
    }

    /// Those under way are told as far as they got.
    pub(super) fn give_up_requests(&mut self, to: &mut dyn Listen) {
        let mut left: Vec<Request> = self.requests.issued.drain().map(|(_, issued)| issued.request).collect();
        left.sort_unstable_by_key(|request| (request.issued_ns, request.device, request.sector));
        for request in &left {
            self.tell_request(request, to);
        }
    }

    fn tell_request(&self, request: &Request, to: &mut dyn Listen) {
        let (from, until) = (self.circumstances.tell_from_ns, self.circumstances.tell_until_ns);
        let last_ns = request.completed_ns.unwrap_or(request.issued_ns);
        if (from..=until).contains(&last_ns) {
            to.request(self, request);
        }
    }
}
