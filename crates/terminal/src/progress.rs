// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far whatever reads traces for more than a second is, on stderr: a bar with the time left, where that is a terminal; or, for the program
//! that started this one and set `PISTE_PROGRESS=json`, lines of JSON.
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

use std::env;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, IsTerminal, Write as _, stdout};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use piste_trace::progress::{Way, bytes_of, bytes_read, indexing};
use piste_trace::{Span, Trace};

/// Nobody needs to know how far something is that is done before they have looked.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);
/// Between lines.
const LINE_STEP: Duration = Duration::from_millis(500);

/// While it lives, progress is shown. A bar is erased when it is dropped.
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

    /// The same for a command that writes to stdout meanwhile: see [`fits_beside_stdout`].
    pub fn beside_stdout(what: &'static str, traces: &[Trace], span: Span, wanted: bool) -> Progress {
        Progress::of(what, traces, span, wanted && fits_beside_stdout())
    }

    /// While traces are opened: large ones that nobody has read before are looked through.
    pub fn opening(wanted: bool) -> Progress {
        Progress::on_the_way("looking through", indexing, wanted)
    }

    /// For whoever knows how far it is, and learns on the way how far there is to go.
    pub fn on_the_way(what: &'static str, way: impl Fn() -> Way + Send + 'static, wanted: bool) -> Progress {
        let show = match (is_lines(), io::stderr().is_terminal()) {
            _ if !wanted => return Progress(None),
            (true, _) => lines,
            (false, true) => bar,
            (false, false) => return Progress(None),
        };
        let (end, ended) = channel();
        let draw = move || {
            if goes_on(&ended, PATIENCE) {
                show(what, &way, &ended);
            }
        };
        // Without a thread there is no progress: no reason not to work.
        let thread = thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Progress(thread.map(|thread| (end, thread)))
    }
}

/// Whether it is not over within a time.
fn goes_on(ended: &Receiver<()>, time: Duration) -> bool {
    ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn bar(what: &'static str, way: &dyn Fn() -> Way, ended: &Receiver<()>) {
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
        if !goes_on(ended, STEP) {
            break;
        }
    }
    bar.finish_and_clear();
}

fn lines(what: &'static str, way: &dyn Fn() -> Way, ended: &Receiver<()>) {
    loop {
        let Way {
            done_bytes,
            total_bytes,
        } = way();
        let done_bytes = done_bytes.min(total_bytes);
        let line = format!(
            "{{\"progress\":{{\"what\":\"{what}\",\"done_bytes\":{done_bytes},\"total_bytes\":{total_bytes}}}}}\n"
        );
        // Whether anybody reads it does not change what is done.
        let _ = io::stderr().write_all(line.as_bytes());
        if !goes_on(ended, LINE_STEP) {
            break;
        }
    }
}

/// Whoever started this program reads lines.
fn is_lines() -> bool {
    env::var_os("PISTE_PROGRESS").is_some_and(|value| value == "json")
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

/// Whether progress can be shown while rows are written to stdout: where nobody sees them come, or where it is told to a program.
pub fn fits_beside_stdout() -> bool {
    let file = stdout().as_fd().try_clone_to_owned().map(File::from);
    is_lines()
        || file
            .and_then(|file| file.metadata())
            .is_ok_and(|metadata| metadata.is_file())
}
