// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C and what else ends a program: the work stops between two batches, so that unfinished files are removed. A second one ends it
//! at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::Notify;

/// Tells whether it is time to stop.
#[derive(Clone)]
pub(crate) struct Interrupt {
    signal: Arc<AtomicI32>,
    /// In the prompt, one statement ends rather than the program.
    is_prompt: Arc<AtomicBool>,
    notify: Arc<Notify>,
}

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt {
            signal: Arc::default(),
            is_prompt: Arc::default(),
            notify: Arc::default(),
        };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let listener = interrupt.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                // Relaxed: the notification is what orders.
                let earlier = listener.signal.swap(signal, Ordering::Relaxed);
                let is_prompt = listener.is_prompt.load(Ordering::Relaxed) && signal == SIGINT;
                if earlier != 0 && !is_prompt {
                    let _ = emulate_default_handler(signal);
                }
                listener.notify.notify_one();
            }
        })?;
        Ok(interrupt)
    }

    /// From now on Ctrl-C ends a statement.
    pub(crate) fn in_prompt(&self) {
        self.is_prompt.store(true, Ordering::Relaxed);
    }

    /// Forgets the signal that ended a statement.
    pub(crate) fn forget(&self) {
        self.signal.store(0, Ordering::Relaxed);
    }

    /// It is time to stop.
    pub(crate) fn is_raised(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Returns when it is time to stop.
    pub(crate) async fn raised(&self) {
        while !self.is_raised() {
            self.notify.notified().await;
        }
    }

    /// Ends the program as the signal does that has stopped it.
    pub(crate) fn end(&self) {
        let _ = emulate_default_handler(self.signal.load(Ordering::Relaxed));
    }
}
