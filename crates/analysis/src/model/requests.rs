// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to devices, from the queue to their completion.
//!
//! A request is known by its device, its first sector and what is asked for. A device may do it in parts, the first sectors first. Of several
//! that are the same in all that, nobody knows which one is meant by an event: when they were complete is unknown, of all of them.

use rustc_hash::FxHashMap;

use super::files::FileId;
use super::state::{Completed, ThreadId};
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
    /// What the system call was about in which it was asked for, if that is known.
    pub file: Option<FileId>,
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

/// What the kernel calls a device: `8:0`.
pub(crate) fn device_number(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}

/// More are not under way at one time; what is there beyond that has been completed where nobody saw it.
const REQUESTS_MAX: usize = 1 << 14;

/// The kernel gives up what a device has not done by then: its end is not in the trace.
const GIVEN_UP_NS: i64 = 30_000_000_000;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    queued: FxHashMap<RequestKey, Queued>,
    issued: FxHashMap<RequestKey, Issued>,
    /// Names of devices.
    devices: FxHashMap<u32, Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct RequestKey {
    device: u32,
    /// Those without sectors, which have no place, have the highest number.
    sector: u64,
    operation: DeviceOperation,
}

/// Those at one place that wait for the driver.
#[derive(Clone, Copy, Debug)]
struct Queued {
    /// When the first one came.
    since_ns: i64,
    /// There was only one since then.
    is_sure: bool,
    count: u32,
    /// Who asked for them, as far as that is known and is the same for all.
    asker: Asker,
    /// The driver gave it back: it may be put into the queue once more.
    is_back: bool,
}

/// Who asked for a request, and on behalf of which file.
#[derive(Clone, Copy, Debug, Default)]
struct Asker {
    thread: Option<ThreadId>,
    file: Option<FileId>,
}

impl Asker {
    /// What is the same in both.
    fn common(self, other: Asker) -> Asker {
        Asker {
            thread: self.thread.filter(|thread| other.thread == Some(*thread)),
            file: self.file.filter(|file| other.file == Some(*file)),
        }
    }
}

/// Those at one place that the driver has.
#[derive(Clone, Copy, Debug)]
enum Issued {
    One {
        request: Request,
        sectors_left: u32,
    },
    /// Several at once: so much is left of them. They have been told.
    Several {
        since_ns: i64,
        parts_left: u64,
    },
}

impl Issued {
    fn since_ns(&self) -> i64 {
        match self {
            Issued::One { request, .. } => request.issued_ns,
            Issued::Several { since_ns, .. } => *since_ns,
        }
    }
}

/// How much it is: sectors, or itself.
fn parts(sectors: u32) -> u64 {
    u64::from(sectors.max(1))
}

impl RequestKey {
    /// `None` of requests that cannot be told from each other.
    fn of(fact: &RequestFact) -> Option<RequestKey> {
        let sector = match (fact.sectors, fact.operation) {
            (0, DeviceOperation::Flush) => u64::MAX,
            (0, _) => return None,
            _ => fact.sector,
        };
        Some(RequestKey {
            device: fact.device,
            sector,
            operation: fact.operation,
        })
    }
}

impl System {
    /// The name of a device: `sda`, or `8:0` when the state dump does not have it.
    pub fn device_name(&self, device: u32) -> String {
        self.known_device_name(device)
            .map_or_else(|| device_number(device), str::to_owned)
    }

    /// The name of a device, if the state dump has said it so far.
    pub(crate) fn known_device_name(&self, device: u32) -> Option<&str> {
        let name = self.requests.devices.get(&device)?;
        Some(self.names.text(*name))
    }

    /// A device has a name, at all times.
    pub fn name_device(&mut self, device: u32, name: &[u8]) {
        let name = self.names.keep(name);
        self.requests.devices.insert(device, name);
    }

    pub(super) fn request(&mut self, step: RequestStep, fact: &RequestFact, cpu: u32, at: &At, to: &mut dyn Listen) {
        let Some(key) = RequestKey::of(fact) else { return };
        match step {
            RequestStep::Insert => {
                let asker = self.who_asks(fact, cpu, at, to);
                self.enqueue(key, asker, at.ns);
            }
            RequestStep::Issue => {
                let queued = self.dequeue(key, at.ns);
                let asker = match queued {
                    Some(queued) if !queued.is_sure || queued.asker.thread.is_some() => queued.asker,
                    _ => self.who_asks(fact, cpu, at, to),
                };
                let request = Request {
                    device: fact.device,
                    operation: fact.operation,
                    sector: fact.sector,
                    bytes: fact.bytes,
                    thread: asker.thread,
                    file: asker.file,
                    queued_ns: queued.filter(|queued| queued.is_sure).map(|queued| queued.since_ns),
                    issued_ns: at.ns,
                    completed_ns: None,
                    error: 0,
                };
                self.issue(key, request, fact.sectors, to);
            }
            RequestStep::Requeue => match self.requests.issued.get_mut(&key) {
                Some(Issued::One { request, .. }) => {
                    let queued = Queued {
                        since_ns: request.queued_ns.unwrap_or(request.issued_ns),
                        is_sure: true,
                        count: 1,
                        asker: Asker {
                            thread: request.thread,
                            file: request.file,
                        },
                        is_back: true,
                    };
                    self.requests.issued.remove(&key);
                    self.requests.queued.insert(key, queued);
                }
                Some(Issued::Several { .. }) => self.end_part(key, fact.sectors, at.ns),
                None => {}
            },
            RequestStep::Merge => _ = self.dequeue(key, at.ns),
            RequestStep::Complete => {
                self.note_completed(key, cpu, at.ns);
                self.complete(key, fact, at, to);
            }
        }
    }

    /// Who waits for it is woken in the same interrupt, or by a thread that does what is left to do.
    fn note_completed(&mut self, key: RequestKey, cpu: u32, now_ns: i64) {
        let asked_by = match self.requests.issued.get(&key) {
            Some(Issued::One { request, .. }) => request.thread,
            _ => None,
        };
        let device = Some(key.device);
        let completed = Completed { device, asked_by };
        if let Some(thread) = asked_by {
            self.threads[thread.index()].completed = Some((now_ns, completed));
        }
        let Some(pending) = self.cpu(cpu).stack.last_mut() else {
            return;
        };
        pending.completed = Some(match pending.completed {
            None => completed,
            Some(known) => Completed {
                device: known.device.filter(|other| device == Some(*other)),
                asked_by: known.asked_by.filter(|other| asked_by == Some(*other)),
            },
        });
    }

    fn enqueue(&mut self, key: RequestKey, asker: Asker, now_ns: i64) {
        let known = self.requests.queued.get(&key).copied();
        let queued = match known.filter(|known| self.may_last(known.since_ns, now_ns)) {
            Some(known) if known.is_back => Queued {
                is_back: false,
                ..known
            },
            Some(known) => Queued {
                is_sure: false,
                count: known.count + 1,
                asker: known.asker.common(asker),
                ..known
            },
            None => Queued {
                since_ns: now_ns,
                is_sure: true,
                count: 1,
                asker,
                is_back: false,
            },
        };
        if self.requests.queued.len() >= REQUESTS_MAX {
            self.requests.queued.clear();
        }
        self.requests.queued.insert(key, queued);
    }

    /// One of those at a place leaves the queue: what is known of it.
    fn dequeue(&mut self, key: RequestKey, now_ns: i64) -> Option<Queued> {
        let known = self.requests.queued.remove(&key)?;
        if !self.may_last(known.since_ns, now_ns) {
            return None;
        }
        if known.count > 1 {
            let left = Queued {
                count: known.count - 1,
                ..known
            };
            self.requests.queued.insert(key, left);
        }
        Some(known)
    }

    /// What began then may still be under way, and nothing of it is missing.
    fn may_last(&self, since_ns: i64, now_ns: i64) -> bool {
        now_ns - since_ns < GIVEN_UP_NS && self.circumstances.gaps.within(since_ns, now_ns, None).is_none()
    }

    fn issue(&mut self, key: RequestKey, request: Request, sectors: u32, to: &mut dyn Listen) {
        if self.requests.issued.len() >= REQUESTS_MAX {
            self.give_up_requests(to);
        }
        let known = self.requests.issued.remove(&key);
        if let Some(Issued::One { request: earlier, .. }) = &known {
            self.tell_request(earlier, to);
        }
        // Also where events are missing in between: the end of the earlier one may still come.
        let known = known.filter(|known| request.issued_ns - known.since_ns() < GIVEN_UP_NS);
        let issued = match known {
            None => Issued::One {
                request,
                sectors_left: sectors,
            },
            Some(known) => {
                self.tell_request(&request, to);
                let before = match known {
                    Issued::One { sectors_left, .. } => parts(sectors_left),
                    Issued::Several { parts_left, .. } => parts_left,
                };
                Issued::Several {
                    since_ns: known.since_ns(),
                    parts_left: before + parts(sectors),
                }
            }
        };
        self.requests.issued.insert(key, issued);
    }

    fn complete(&mut self, key: RequestKey, fact: &RequestFact, at: &At, to: &mut dyn Listen) {
        let (mut request, sectors_left) = match self.requests.issued.get(&key) {
            Some(Issued::One { request, sectors_left }) => (*request, *sectors_left),
            Some(Issued::Several { .. }) => return self.end_part(key, fact.sectors, at.ns),
            None => return,
        };
        self.requests.issued.remove(&key);
        if fact.error != 0 {
            request.error = fact.error;
        }
        if fact.sectors < sectors_left {
            let rest = RequestKey {
                sector: key.sector + u64::from(fact.sectors),
                ..key
            };
            let issued = Issued::One {
                request,
                sectors_left: sectors_left - fact.sectors,
            };
            self.requests.issued.insert(rest, issued);
            return;
        }
        // Where events are missing, this may be the end of another one at the same place; and of a longer one it is for sure.
        let is_torn = self.circumstances.gaps.within(request.issued_ns, at.ns, None).is_some();
        if !is_torn && fact.sectors == sectors_left {
            request.completed_ns = Some(at.ns);
        }
        self.tell_request(&request, to);
    }

    /// One of several at a place has ended, or a part of it has.
    fn end_part(&mut self, key: RequestKey, sectors: u32, now_ns: i64) {
        let Some(Issued::Several { since_ns, parts_left }) = self.requests.issued.get_mut(&key) else {
            return;
        };
        *parts_left = parts_left.saturating_sub(parts(sectors));
        let is_over = *parts_left == 0;
        let since_ns = *since_ns;
        if is_over || !self.may_last(since_ns, now_ns) {
            self.requests.issued.remove(&key);
        }
    }

    /// Who does what is said. What happens in an interrupt is nobody's.
    fn who_asks(&mut self, fact: &RequestFact, cpu: u32, at: &At, to: &mut dyn Listen) -> Asker {
        let current = self.current(cpu, at, to);
        if !self.cpu(cpu).is_of_thread() {
            return Asker::default();
        }
        let thread = match fact.tid {
            Some(tid) => Some(self.thread_on(cpu, tid, at, to)),
            None => current,
        };
        let thread = thread.filter(|id| self.threads[id.index()].tid != 0);
        let is_read = fact.operation == DeviceOperation::Read;
        let file = thread.and_then(|thread| self.file_in_hand(thread, is_read, at.ns));
        Asker { thread, file }
    }

    /// Those under way are told as far as they got.
    pub(super) fn give_up_requests(&mut self, to: &mut dyn Listen) {
        let left = self.requests.issued.drain();
        let one = left.filter_map(|(_, issued)| match issued {
            Issued::One { request, .. } => Some(request),
            Issued::Several { .. } => None,
        });
        let mut left: Vec<Request> = one.collect();
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
