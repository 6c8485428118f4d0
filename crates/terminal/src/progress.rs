// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bar with the time left, for whatever reads traces for more than a second: drawn on stderr, where that is a terminal.
//!
//! ```no_run
//! use piste_terminal::progress::Progress;
//! use piste_trace::{Findings, Span, open};
//!
//! let opening = Progress::opening(true);
//! let traces = open("trace".as_ref(), &mut Findings::default())?;
//! drop(opening);
//! let progress = Progress::of("counting", &traces, Span::ALL, true);
//! // ... everything is read ...
//! drop(progress);
//! # Ok::<(), piste_trace::OpenError>(())
//! ```

use std::fmt::Write;
use std::fs::File;
use std::io::{self, IsTerminal, stdout};
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use piste_trace::progress::{Way, bytes_of, bytes_read, indexing};
use piste_trace::{Span, Trace};

/// Nobody needs to know how far something is that is done before they have looked.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);

/// While it lives, the bar is shown. It is erased when it is dropped.
#[derive(Debug)]
pub struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// For a command that reads all packets of a part of time once. `what` it does: `counting`. Nothing is shown when it is not
    /// `wanted`.
    pub fn of(what: &'static str, traces: &[Trace], span: Span, wanted: bool) -> Progress {
        let (begun, total_bytes) = (bytes_read(), bytes_of(traces, span));
        let way = move || Way {
            done_bytes: bytes_read() - begun,
            total_bytes,
        };
        Progress::on_the_way(what, way, wanted)
    }

    /// The same for a command that writes to stdout meanwhile: a bar is shown only when that is a file, where nobody sees what comes.
    pub fn beside_stdout(what: &'static str, traces: &[Trace], span: Span, wanted: bool) -> Progress {
        Progress::of(what, traces, span, wanted && stdout_is_file())
    }

    /// While traces are opened: large ones that nobody has read before are looked through.
    pub fn opening(wanted: bool) -> Progress {
        Progress::on_the_way("looking through", indexing, wanted)
    }

    /// For whoever knows how far it is, and learns on the way how far there is to go.
    pub fn on_the_way(what: &'static str, way: impl Fn() -> Way + Send + 'static, wanted: bool) -> Progress {
        if !wanted || !io::stderr().is_terminal() {
            return Progress(None);
        }
        let (end, ended) = channel();
        let draw = move || {
            if ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Shown when it knows how far it is.
            let bar = ProgressBar::hidden()
                .with_style(style())
                .with_message(what)
                .with_elapsed(PATIENCE);
            loop {
                let Way {
                    done_bytes,
                    total_bytes,
                } = way();
                bar.set_length(total_bytes);
                // A few bytes are read twice, and the end may take a moment.
                bar.set_position(done_bytes.min(total_bytes));
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                if ended.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bar.finish_and_clear();
        };
        // Without a thread there is no bar: no reason not to work.
        let thread = thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Progress(thread.map(|thread| (end, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // What is said next must not stand in the bar's line.
            let _ = thread.join();
        }
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3} %  {rate}/s, {left} left");
    let style = style.expect("a template that is right").progress_chars("=> ");
    // The bar's own are of what it has seen, and it has not seen how the first part was done.
    style
        .with_key("rate", |state: &ProgressState, text: &mut dyn Write| {
            let _ = write!(text, "{}", BinaryBytes(rate(state) as u64));
        })
        .with_key("left", |state: &ProgressState, text: &mut dyn Write| {
            let left_bytes = state.len().unwrap_or(0).saturating_sub(state.pos());
            let seconds = left_bytes as f64 / rate(state).max(1.0);
            let _ = write!(text, "{:#}", HumanDuration(Duration::from_secs_f64(seconds)));
        })
}

/// Bytes in a second, since the beginning.
fn rate(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64()
}

/// What is written to stdout is seen by nobody meanwhile.
pub fn stdout_is_file() -> bool {
    let file = stdout().as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata())
        .is_ok_and(|metadata| metadata.is_file())
}
