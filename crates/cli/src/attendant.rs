// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks after a recording while the command runs: takes a snapshot at each order, and stops recording when its time is over.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use piste_control::interface::VarlinkClientInterface;
use piste_control::{Client, Error, Places};

use crate::quantity::{counted, size};
use crate::screen::{STRONG, printable, styled, tell_sentence};

/// What an attendant is told.
pub(crate) enum Order {
    /// Take a snapshot.
    Snapshot,
    /// The recording is over.
    End,
}

/// What it looks after.
#[derive(Clone)]
pub(crate) struct Charge {
    pub(crate) places: Places,
    pub(crate) session: String,
    /// When recording stops; absent: nobody stops it here.
    pub(crate) duration: Option<Duration>,
    /// A snapshot is taken before it stops.
    pub(crate) snapshot_at_stop: bool,
}

/// A thread that looks after a recording.
pub(crate) struct Attendant {
    orders: Sender<Order>,
    thread: JoinHandle<bool>,
}

impl Attendant {
    /// Begins with the orders that `received` gets from `orders` and its clones.
    pub(crate) fn begin(charge: Charge, orders: Sender<Order>, received: Receiver<Order>) -> Attendant {
        Attendant {
            orders,
            thread: thread::spawn(move || attend(&charge, &received)),
        }
    }

    /// Ends once what was ordered is done. Whether recording was stopped, because its time was over.
    pub(crate) fn end(self) -> bool {
        // Both fail only with a thread that panicked, which has said so.
        let _ = self.orders.send(Order::End);
        self.thread.join().unwrap_or(false)
    }
}

fn attend(charge: &Charge, orders: &Receiver<Order>) -> bool {
    let deadline = charge.duration.map(|duration| Instant::now() + duration);
    let mut stopped = false;
    loop {
        let order = match deadline.filter(|_| !stopped) {
            Some(deadline) => orders.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => orders.recv().map_err(RecvTimeoutError::from),
        };
        match order {
            Ok(Order::Snapshot) => tell_failure("no snapshot was taken", snapshot(charge)),
            Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => return stopped,
            Err(RecvTimeoutError::Timeout) => {
                if charge.snapshot_at_stop {
                    tell_failure("no snapshot was taken", snapshot(charge));
                }
                tell_failure("the recording was not stopped", stop(charge));
                stopped = true;
            }
        }
    }
}

fn tell_failure(what: &str, result: Result<(), Error>) {
    if let Err(error) = result {
        tell_sentence(&format!("{what}: {error}"));
    }
}

/// Takes a snapshot and tells where it is.
pub(crate) fn snapshot(charge: &Charge) -> Result<(), Error> {
    let reply = Client::connect_or_start(&charge.places)?
        .calls()
        .snapshot_record(Some(charge.session.clone()), None)
        .call()?;
    tell_sentence(&format!(
        "snapshot: {}, {}, in {}",
        counted(reply.events, "event"),
        size(reply.bytes),
        styled(STRONG, printable(&reply.output))
    ));
    Ok(())
}

fn stop(charge: &Charge) -> Result<(), Error> {
    Client::connect_or_start(&charge.places)?
        .calls()
        .stop(Some(charge.session.clone()))
        .call()?;
    Ok(())
}
