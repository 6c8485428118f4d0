// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for pisted: whoever waits long is told what for, and may leave. What pisted does goes on without anybody who waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;

use crate::child::not_ignored;
use crate::failure::{Failure, INTERRUPTED};
use crate::screen::tell_sentence;

/// What is said first then; it is said again when twice as much time has gone by.
const FIRST_WORD: Duration = Duration::from_secs(1);
/// Between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Makes a call that may take long. `what` is waited for meanwhile; `after` says what becomes of it when Ctrl-C ends the wait.
pub(crate) fn wait_for<Reply: Send + 'static>(
    what: &str,
    after: &str,
    call: impl FnOnce() -> Result<Reply, Failure> + Send + 'static,
) -> Result<Reply, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in not_ignored([SIGINT]).unwrap_or_default() {
        // Without it, Ctrl-C ends this process as any other.
        let _ = signal_hook::flag::register(signal, Arc::clone(&interrupted));
    }
    let (answer, answered) = mpsc::channel();
    // Nobody may wait for the answer any more.
    thread::spawn(move || drop(answer.send(call())));
    let began = Instant::now();
    let mut next_word = FIRST_WORD;
    loop {
        match answered.recv_timeout(LOOK) {
            Ok(reply) => return reply,
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::new("the call to pisted failed")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Relaxed: nothing else is said by it.
        if interrupted.load(Ordering::Relaxed) {
            return Err(Failure::with_status(format!("interrupted; {after}"), INTERRUPTED));
        }
        if began.elapsed() >= next_word {
            tell_sentence(&format!("waiting for {what}: {} s", began.elapsed().as_secs()));
            next_word *= 2;
        }
    }
}
