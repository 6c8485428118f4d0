// SPDX-License-Identifier: MIT OR Apache-2.0
//! A consumer process without threads, for the simulation: all of it is real but those and the socket that it listens on. Whoever has it says
//! which session is looked at and how many messages are taken.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::Programs;
use super::super::outbox::{Outbox, lock};
use super::super::service::Service;
use super::super::stage::Again;
use super::super::watch::Watch;
use super::super::worker::{Work, Worker, Workers};
use crate::link::{Link, Opening, ToConsumer, ToControl};
use crate::simulation::disk::Killed;

type Works = Rc<RefCell<Vec<Work<Programs>>>>;
type Start = Box<dyn FnMut(Opening, &Outbox, &Workers) -> io::Result<Worker>>;

/// A consumer process that lives.
pub(crate) struct ConsumerProcess {
    service: Service<Start>,
    /// Those of the sessions' threads.
    works: Works,
    now: Rc<Cell<Instant>>,
}

/// What became of a process that did something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    Killed,
}

impl ConsumerProcess {
    /// One without sessions. Control's end of its connection comes with it.
    pub(crate) fn start(now: Instant) -> (ConsumerProcess, Link) {
        let (works, now) = (Works::default(), Rc::new(Cell::new(now)));
        let (of_start, clock) = (works.clone(), now.clone());
        let watch = Arc::<Watch>::default();
        let start: Start = Box::new(move |opening, outbox, workers| {
            let domain = Programs::new(watch.clone());
            let (worker, work) = Worker::without_thread(opening, domain, outbox, workers, clock.get())?;
            of_start.borrow_mut().push(work);
            Ok(worker)
        });
        let service = Service::new(None, start).expect("there are descriptors left");
        let mut process = ConsumerProcess { service, works, now };
        let link = process.connect();
        (process, link)
    }

    /// A control process connects. The end that it has is returned.
    pub(crate) fn connect(&mut self) -> Link {
        let pair = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        };
        let (ours, of_control) = pair().expect("there are descriptors left");
        self.service.connect(Link::new(ours));
        Link::new(of_control)
    }

    /// Takes messages from control.
    pub(crate) fn receive(&mut self, most: usize) -> Fate {
        self.survives(|process| {
            process.service.receive(most);
        })
    }

    /// Sets its clock.
    pub(crate) fn set_clock(&self, now: Instant) {
        self.now.set(now);
    }

    /// Sessions that it has.
    pub(crate) fn session_count(&self) -> usize {
        self.works.borrow().len()
    }

    /// Looks at one of the sessions.
    pub(crate) fn look(&mut self, index: usize) -> Fate {
        let now = self.now.get();
        self.survives(|process| {
            let mut works = process.works.borrow_mut();
            if works[index].look(|| now) == Again::Closed {
                works.remove(index);
            }
        })
    }

    /// Whether it has nothing any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.works.borrow().is_empty() && lock(&self.service.workers).is_empty()
    }

    fn survives(&mut self, act: impl FnOnce(&mut ConsumerProcess)) -> Fate {
        match catch_unwind(AssertUnwindSafe(|| act(self))) {
            Ok(()) => Fate::Lives,
            Err(why) if why.is::<Killed>() => Fate::Killed,
            Err(why) => resume_unwind(why),
        }
    }
}

#[test]
fn what_an_earlier_control_process_said_is_heard_before_a_newer_one() {
    let (mut consumer, mut link) = ConsumerProcess::start(Instant::now());
    let adopt = |consumer: &mut ConsumerProcess, link: &mut Link| {
        link.send(&ToConsumer::Adopt, None).unwrap();
        assert_eq!(consumer.receive(10), Fate::Lives);
        std::iter::from_fn(|| Some(link.receive::<ToControl>().unwrap()?.0)).collect::<Vec<_>>()
    };
    let pid = std::process::id() as i32;
    let adopted = |described| ToControl::Adopted { pid, described };
    assert_eq!(adopt(&mut consumer, &mut link), [adopted(false)]);
    let opening = Opening {
        session: 1,
        output: "/nowhere".into(),
        owner: crate::person::Person::default(),
        purpose: crate::link::Purpose::Trace,
        trace: super::rig::trace(),
        rotation: None,
        archived: vec![],
    };
    link.send(&ToConsumer::OpenSession(opening), None).unwrap();
    link.send(&ToConsumer::Described, None).unwrap();
    drop(link);
    let mut link = consumer.connect();
    let session = ToControl::AdoptedSession {
        session: 1,
        started: false,
    };
    assert_eq!(adopt(&mut consumer, &mut link), [session, adopted(true)]);
}
