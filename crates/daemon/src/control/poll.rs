// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the loop of the control process waits for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::link::{Domain, SessionId};

/// Events taken at once. The rest comes with the next call.
const EVENT_COUNT_MAX: usize = 64;

/// As long as it may wait at once. Kernels before 5.11 take milliseconds in 31 bits.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// An epoll instance whose events say what they are about.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// What the loop watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A program wants to connect.
    Listener,
    /// A command waits.
    Commands,
    /// The consumer of a domain.
    Consumer(Domain),
    /// The consumer of a domain listens no more.
    ConsumerEnd(Domain),
    /// A signal to end.
    Signal,
    /// The connection of this number.
    Connection(u64),
    /// The process of this number ended.
    Process(u64),
    /// The process ended that created the session, which is bound to it.
    Creator(SessionId),
}

impl Watched {
    const KIND_BITS: u32 = 3;

    fn encode(self) -> epoll::EventData {
        let (kind, number) = match self {
            Watched::Listener => (0, 0),
            Watched::Commands => (1, 0),
            Watched::Consumer(Domain::User) => (2, 0),
            Watched::Consumer(Domain::Kernel) => (2, 1),
            Watched::ConsumerEnd(Domain::User) => (7, 0),
            Watched::ConsumerEnd(Domain::Kernel) => (7, 1),
            Watched::Signal => (3, 0),
            Watched::Connection(number) => (4, number),
            Watched::Process(number) => (5, number),
            Watched::Creator(session) => (6, session),
        };
        epoll::EventData::new_u64(number << Watched::KIND_BITS | kind)
    }

    fn decode(data: epoll::EventData) -> Watched {
        let number = data.u64() >> Watched::KIND_BITS;
        match data.u64() & ((1 << Watched::KIND_BITS) - 1) {
            0 => Watched::Listener,
            1 => Watched::Commands,
            2 if number == 0 => Watched::Consumer(Domain::User),
            2 => Watched::Consumer(Domain::Kernel),
            3 => Watched::Signal,
            4 => Watched::Connection(number),
            5 => Watched::Process(number),
            6 => Watched::Creator(number),
            _ if number == 0 => Watched::ConsumerEnd(Domain::User),
            _ => Watched::ConsumerEnd(Domain::Kernel),
        }
    }
}

impl Poll {
    /// One that waits for nothing yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poll {
            epoll,
            events: Vec::with_capacity(EVENT_COUNT_MAX),
        })
    }

    /// Waits for something to read from `descriptor` until it is closed.
    ///
    /// # Errors
    /// The system's limit of watches is reached.
    pub fn add(&self, descriptor: impl AsFd, watched: Watched) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            descriptor,
            watched.encode(),
            epoll::EventFlags::IN,
        )?)
    }

    /// Waits for room to write as well, or no longer.
    pub fn set_writing(&self, descriptor: impl AsFd, watched: Watched, writing: bool) {
        let out = if writing {
            epoll::EventFlags::OUT
        } else {
            epoll::EventFlags::empty()
        };
        let modified = epoll::modify(&self.epoll, descriptor, watched.encode(), epoll::EventFlags::IN | out);
        assert_eq!(modified, Ok(()), "the descriptor was added");
    }

    /// Waits at most `timeout`, or for a while shorter than that, and says who has something.
    ///
    /// # Errors
    /// Only for what is a bug here.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<Watched>> {
        let timeout = timeout.map(bounded);
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| Watched::decode(event.data)).collect())
    }
}

fn bounded(timeout: Duration) -> Timespec {
    let timeout = timeout.min(TIMEOUT_MAX);
    Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_is_longer_than_an_old_kernel_can_say() {
        let year = Duration::from_secs(365 * 24 * 3600);
        for timeout in [year, Duration::MAX] {
            let bounded = bounded(timeout);
            assert!(i32::try_from(bounded.tv_sec * 1000 + 999).is_ok(), "{bounded:?}");
        }
        let short = bounded(Duration::from_micros(1_500_001));
        assert_eq!((short.tv_sec, short.tv_nsec), (1, 500_001_000));
    }
}
