// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown to a person: colours, where somebody can see them (a terminal, not NO_COLOR). page.rs has long results.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::adapter::strip_str;
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use piste_terminal::Size;
use piste_terminal::fit::wrapped;
pub(crate) use piste_terminal::printable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::imported;

/// Loss, failures.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Nothing lost.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What the eye looks for.
pub(crate) const STRONG: Style = Style::new().bold();
/// Headings, labels.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// `text` in `style`.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes `text` to stdout.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(for_stream(&stdout, text).as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes `value` to stdout as JSON.
pub(crate) fn show_json(value: &impl Serialize) -> Result<(), Failure> {
    show(&json_text(value)?)
}

/// `value` as JSON, in lines.
pub(crate) fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    Ok(imported::shown_in_json(text) + "\n")
}

/// Writes `text` to stderr, in lines that fit into a terminal. Whether anybody can read it there (a terminal may be gone) does not change what
/// piste does.
pub(crate) fn tell(text: &str) {
    let text = match Size::of_stderr() {
        Some(size) => wrapped(text, size.columns).into(),
        None => Cow::Borrowed(text),
    };
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(for_stream(&stderr, &text).as_bytes());
}

/// `text` as the stream shows it, in one piece: what others write at the same time does not get between.
pub(crate) fn for_stream<'a>(stream: &impl RawStream, text: &'a str) -> Cow<'a, str> {
    match AutoStream::choice(stream) {
        ColorChoice::Never => strip_str(text).to_string().into(),
        _ => text.into(),
    }
}

/// Whether messages are JSON, too: set once, before there are any.
static SPEAKS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on, every message is a line of JSON.
pub(crate) fn speak_json() {
    // Relaxed: whoever starts a thread later hands it on.
    SPEAKS_JSON.store(true, Ordering::Relaxed);
}

/// Messages are JSON.
pub(crate) fn speaks_json() -> bool {
    SPEAKS_JSON.load(Ordering::Relaxed)
}

/// Tells a sentence as this command's own: `piste: ...`.
pub(crate) fn tell_sentence(sentence: &str) {
    match speaks_json() {
        true => tell_json(&json!({ "note": plain(sentence) })),
        false => tell(&format!("{} {sentence}\n", styled(STRONG, "piste:"))),
    }
}

/// Tells why the command fails.
pub(crate) fn tell_failure(sentence: &str, exit_status: u8) {
    match speaks_json() {
        true => tell_json(&json!({ "error": { "message": plain(sentence), "exit_status": exit_status } })),
        false => tell_sentence(sentence),
    }
}

/// Tells a message as a line of JSON.
pub(crate) fn tell_json(message: &Value) {
    tell(&(imported::shown_in_json(message.to_string()) + "\n"));
}

fn plain(sentence: &str) -> String {
    strip_str(sentence).to_string()
}
