// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something that was asked is not done. control.rs turns these into the errors of the interface.

use std::path::PathBuf;

use super::rules::InvalidPattern;
use crate::link::Domain;

/// Why something that was asked is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub enum Refusal {
    NoSession {
        name: String,
        nearest: Vec<String>,
    },
    NoCurrentSession,
    SessionExists {
        name: String,
    },
    SessionsExist {
        names: Vec<String>,
    },
    NoTrigger {
        name: String,
        nearest: Vec<String>,
    },
    TriggerExists {
        name: String,
    },
    NoChannel {
        name: String,
        session: String,
        domain: Domain,
        nearest: Vec<String>,
    },
    ChannelExists {
        name: String,
        session: String,
        setting: &'static str,
        value: String,
    },
    TooManyChannels {
        session: String,
        limit: usize,
    },
    NoRule {
        pattern: String,
        channel: String,
        nearest: Vec<String>,
    },
    NotTracked {
        kind: &'static str,
        value: String,
        tracked: Vec<String>,
    },
    /// The kernel cannot be traced.
    NoKernelDomain {
        reason: String,
        mend: String,
    },
    NoEvent {
        pattern: String,
        nearest: Vec<String>,
    },
    NoField {
        field: String,
        pattern: String,
        nearest: Vec<String>,
    },
    InvalidFilter {
        filter: String,
        position: usize,
        reason: String,
    },
    InvalidProbe {
        probe: String,
        reason: String,
    },
    InvalidPattern(InvalidPattern),
    InvalidSetting {
        setting: &'static str,
        value: String,
        allowed: String,
    },
    NothingEnabled {
        session: String,
        disabled_channels: Vec<String>,
    },
    AlreadyActive {
        session: String,
    },
    NotActive {
        session: String,
    },
    NotSnapshot {
        session: String,
    },
    IsSnapshot {
        session: String,
    },
    NeverStarted {
        session: String,
    },
    RotationInProgress {
        session: String,
    },
    OutputExists {
        path: PathBuf,
    },
    OutputFailed {
        path: PathBuf,
        reason: String,
    },
    /// Not this user.
    NoPermission {
        what: String,
        mend: String,
    },
    ConsumerFailed {
        reason: String,
    },
    Internal {
        reason: String,
    },
}

impl From<InvalidPattern> for Refusal {
    fn from(invalid: InvalidPattern) -> Refusal {
        Refusal::InvalidPattern(invalid)
    }
}

/// The names that look like `name`, the most alike first.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    piste_patterns::nearest(name, known, 3)
}
