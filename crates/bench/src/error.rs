// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something was not measured: it is not on this machine, or it failed.

/// What is missing on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// What is missing, as a sentence without its end.
    pub reason: String,
    /// How to get it; absent if this machine cannot have it.
    pub remedy: Option<String>,
}

impl Absence {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Absence {
        Absence {
            reason: reason.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Nothing on this machine helps.
    pub(crate) fn for_good(reason: impl Into<String>) -> Absence {
        Absence {
            reason: reason.into(),
            remedy: None,
        }
    }

    /// A program that Debian has in a package.
    pub(crate) fn of_program(program: &str, package: &str) -> Absence {
        Absence::new(
            format!("there is no program {program}"),
            format!("install it (Debian: apt install {package})"),
        )
    }
}

/// Why measuring ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something that runs elsewhere does not run here.
    #[error("{0}")]
    Failed(String),
    /// Ctrl-C.
    #[error("it was interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error::Failed(sentence.into())
    }
}
