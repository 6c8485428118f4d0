// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a command fails: a sentence for stderr and an exit status. docs/reference/cli.md lists the statuses.

use std::fmt::Display;
use std::io;

use piste_control::interface::{self, ErrorKind};
use piste_modelling::GroundError;
use piste_reason::reason;
use unicode_width::UnicodeWidthStr;

use crate::screen::printable;

/// The command failed.
pub(crate) const FAILED: u8 = 1;
/// The arguments are wrong.
pub(crate) const USAGE: u8 = 2;
/// `record --fail-on-loss`: the program succeeded and something was lost.
pub(crate) const LOSS: u8 = 90;
/// `latency --fail-above`: something took longer.
pub(crate) const LATE: u8 = 91;
/// `record` failed, not the program. This and the next two are those of env(1), nice(1) and timeout(1).
pub(crate) const RECORD_FAILED: u8 = 125;
/// `record`: the program exists and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `record`: the program does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// `record`: the program was killed; the signal's number is added.
pub(crate) const KILLED: u8 = 128;
/// Ctrl-C ended it before what it waited for.
pub(crate) const INTERRUPTED: u8 = KILLED + 2;

/// Why a command ends here.
#[derive(Debug)]
pub(crate) enum Failure {
    /// To be told.
    Told { sentence: String, status: u8 },
    /// Nobody reads the output any more; there is nobody to tell.
    ReaderGone,
}

impl Failure {
    /// A failure with the ordinary status.
    pub(crate) fn new(sentence: impl Display) -> Failure {
        Failure::Told {
            sentence: sentence.to_string(),
            status: FAILED,
        }
    }

    /// A failure with a status of its own.
    pub(crate) fn with_status(sentence: impl Display, status: u8) -> Failure {
        Failure::Told {
            sentence: sentence.to_string(),
            status,
        }
    }

    /// The failure as `record` shows it: the ordinary status could be the recorded command's.
    pub(crate) fn of_record(self) -> Failure {
        match self {
            Failure::Told {
                sentence,
                status: FAILED,
            } => Failure::Told {
                sentence,
                status: RECORD_FAILED,
            },
            other => other,
        }
    }
}

impl From<piste_control::Error> for Failure {
    fn from(error: piste_control::Error) -> Failure {
        match error.refusal() {
            Some(ErrorKind::InvalidFilter(Some(wrong))) => {
                let place = pointed_at(&wrong.filter, wrong.position);
                Failure::new(format!("the filter is invalid: {}\n{place}", printable(&wrong.reason)))
            }
            _ => Failure::new(error),
        }
    }
}

impl From<GroundError> for Failure {
    fn from(error: GroundError) -> Failure {
        Failure::new(printable(&error.to_string()))
    }
}

/// The text, and a caret under the byte at `position`.
pub(crate) fn pointed_at(text: &str, position: i64) -> String {
    let position = usize::try_from(position).unwrap_or(0).min(text.len());
    let before = text.get(..position).unwrap_or(text);
    format!("  {}\n  {}^", printable(text), " ".repeat(printable(before).width()))
}

impl From<interface::Error> for Failure {
    fn from(error: interface::Error) -> Failure {
        piste_control::Error::from(error).into()
    }
}

/// Errors of writing the output; all others get a sentence where they happen.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::new(format!("cannot write the output: {}", reason(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_filter_is_shown_with_the_place() {
        let wrong = interface::InvalidFilter_Args {
            filter: "é == \"x\" && prev_pri < 10".into(),
            position: 13,
            reason: "no field \"prev_pri\"".into(),
        };
        let refused = piste_control::Error::Refused(Box::new(ErrorKind::InvalidFilter(Some(wrong))));
        match Failure::from(refused) {
            Failure::Told { sentence, .. } => assert_eq!(
                sentence,
                "the filter is invalid: no field \"prev_pri\"\n  é == \"x\" && prev_pri < 10\n              ^"
            ),
            other => panic!("{other:?}"),
        }
        assert_eq!(pointed_at("a", 9), "  a\n   ^");
    }
}
