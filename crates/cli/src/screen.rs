// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown to a person: colours, where somebody can see them (a terminal, not NO_COLOR), and texts that came from traced
//! programs.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

use anstream::adapter::strip_str;
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::Failure;

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

/// `text` with control characters made visible: a program must not move the cursor of who looks at its name.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        let escape = |c: char| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.into()
            }
        };
        text.chars().map(escape).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Writes `text` to stdout.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(for_stream(&stdout, text).as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes `value` to stdout as JSON.
pub(crate) fn show_json(value: &impl Serialize) -> Result<(), Failure> {
    show(&format!(
        "{}\n",
        serde_json::to_string_pretty(value).map_err(io::Error::from)?
    ))
}

/// Writes `text` to stderr. Whether anybody can read it there (a terminal may be gone) does not change what piste does.
pub(crate) fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(for_stream(&stderr, text).as_bytes());
}

/// `text` as the stream shows it, in one piece: what others write at the same time does not get between.
fn for_stream<'a>(stream: &impl RawStream, text: &'a str) -> Cow<'a, str> {
    match AutoStream::choice(stream) {
        ColorChoice::Never => strip_str(text).to_string().into(),
        _ => text.into(),
    }
}

/// Tells a sentence as this command's own: `piste: ...`.
pub(crate) fn tell_sentence(sentence: &str) {
    tell(&format!("{} {sentence}\n", styled(STRONG, "piste:")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(printable("shop \u{e9}"), "shop \u{e9}");
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
