// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong between a client and pisted. Each error's text is a sentence for people: what, how much, what is
//! allowed, what to do; without a full stop, so that a program can put its name before it.

use std::io;
use std::path::PathBuf;

use piste_reason::reason;

use crate::interface::{self, ErrorKind};

/// An error of connecting, or a refusal by pisted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// pisted understood and refused.
    #[error("{}", sentence(.0))]
    Refused(Box<ErrorKind>),
    /// Nobody listens on the control socket.
    #[error("no pisted is running for the run folder {run_folder:?}; start one with `pisted --background`")]
    NoDaemon {
        /// The run folder that was asked.
        run_folder: PathBuf,
    },
    /// pisted was started here and did not come up.
    #[error("cannot start pisted ({program}): {reason}")]
    NotStarted {
        /// The command that was run.
        program: String,
        /// What it said, or what the system said.
        reason: String,
    },
    /// The control socket belongs to somebody else.
    #[error(
        "no permission to control the pisted at {socket:?}; join the group `tracing`, or use your own pisted (unset PISTE_RUNDIR)"
    )]
    Denied {
        /// The socket that refused.
        socket: PathBuf,
    },
    /// The run folder cannot be used.
    #[error("cannot use the run folder {path:?}: {reason}")]
    RunFolder {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Connecting failed for another reason.
    #[error("cannot connect to {socket:?}: {}", reason(.error))]
    Socket {
        /// The socket that was tried.
        socket: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The connection ended in the middle of a call.
    #[error("pisted ended before it answered; see pisted.log in the run folder")]
    Gone,
    /// pisted speaks another version of the interface.
    #[error("this pisted does not understand the request ({reason}); it has another version (see `piste version`)")]
    OtherVersion {
        /// What was not understood.
        reason: String,
    },
}

impl Error {
    /// pisted's refusal, if it is one.
    pub fn refusal(&self) -> Option<&ErrorKind> {
        match self {
            Error::Refused(kind) => Some(kind),
            _ => None,
        }
    }
}

impl From<interface::Error> for Error {
    fn from(error: interface::Error) -> Error {
        use varlink::ErrorKind as Transport;
        match &error.0 {
            ErrorKind::Varlink_Error | ErrorKind::VarlinkReply_Error => match error.source_varlink_kind() {
                Some(Transport::Io(_) | Transport::ConnectionClosed) => Error::Gone,
                Some(other) => Error::OtherVersion {
                    reason: other.to_string(),
                },
                None => Error::OtherVersion {
                    reason: error.to_string(),
                },
            },
            kind => Error::Refused(Box::new(kind.clone())),
        }
    }
}

/// The sentence for a refusal.
fn sentence(kind: &ErrorKind) -> String {
    use ErrorKind as E;
    match kind {
        E::NoSession(Some(e)) => format!(
            "there is no session {:?}{}",
            e.name,
            did_you_mean(&e.nearest, "see `piste list`")
        ),
        E::NoCurrentSession(_) => {
            "there is no current session; choose one with -s (see `piste list`), or create one with `piste create`"
                .into()
        }
        E::SessionExists(Some(e)) => {
            format!(
                "a session {:?} exists already; choose another name, or end it with `piste destroy -s {}`",
                e.name, e.name
            )
        }
        E::SessionsExist(Some(e)) => {
            format!(
                "{} sessions exist ({}); destroy them first, or use force",
                e.names.len(),
                e.names.join(", ")
            )
        }
        E::NoChannel(Some(e)) => format!(
            "session {:?} has no channel {:?}{}",
            e.session,
            e.name,
            did_you_mean(
                &e.nearest,
                &format!("create it with `piste enable-channel {} {}`", option(&e.domain), e.name)
            )
        ),
        E::ChannelExists(Some(e)) => format!(
            "channel {:?} of session {:?} already exists with {} {}; the settings of a channel cannot change, so create one with another name",
            e.name, e.session, e.setting, e.value
        ),
        E::TooManyChannels(Some(e)) => format!(
            "session {:?} has {} channels, the most that are possible; use one of them",
            e.session, e.limit
        ),
        E::TooLong(_) => "the list is too long for one reply; ask for it in parts (`more`)".into(),
        E::NoRule(Some(e)) => format!(
            "channel {:?} has no rule {:?}{}",
            e.channel,
            e.pattern,
            did_you_mean(&e.nearest, "see `piste status`")
        ),
        E::NotTracked(Some(e)) => format!(
            "{} {} is not tracked; {}",
            e.kind,
            e.value,
            tracked(&e.kind, &e.tracked)
        ),
        E::InvalidPattern(Some(e)) => format!(
            "pattern {:?} is invalid at byte {}: {}; a pattern has the form `provider:event`, where `*` matches any text",
            e.pattern, e.position, e.reason
        ),
        E::InvalidSetting(Some(e)) => format!("{} {:?} is not possible; allowed: {}", e.setting, e.value, e.allowed),
        E::NoKernelDomain(Some(e)) => format!("the kernel cannot be traced: {}; {}", e.reason, e.mend),
        E::NoEvent(Some(e)) => format!(
            "the kernel has no event {:?}{}",
            e.pattern,
            did_you_mean(&e.nearest, "see `piste list -k`")
        ),
        E::NoField(Some(e)) => format!(
            "no event of {:?} has a field {:?}{}",
            e.pattern,
            e.field,
            did_you_mean(
                &e.nearest,
                "see `piste list -k EVENT`; use the names of the fields in the trace"
            )
        ),
        E::InvalidFilter(Some(e)) => format!(
            "the filter {:?} is invalid: {}, at byte {}",
            e.filter, e.reason, e.position
        ),
        E::InvalidProbe(Some(e)) => format!("probe {:?} is not possible: {}", e.probe, e.reason),
        E::NothingEnabled(Some(e)) if !e.disabled_channels.is_empty() => format!(
            "session {:?} has no enabled events outside its disabled channels ({}); enable these with `piste enable-channel -s {}`, or -k for the kernel's",
            e.session,
            e.disabled_channels.join(", "),
            e.session
        ),
        E::NothingEnabled(Some(e)) => format!(
            "session {:?} has no enabled events; enable some with `piste enable-event -s {} -u '*'`, or -k for the kernel's",
            e.session, e.session
        ),
        E::NoTrigger(Some(e)) => format!(
            "there is no trigger {:?}{}",
            e.name,
            did_you_mean(&e.nearest, "see `piste list-triggers`")
        ),
        E::TriggerExists(Some(e)) => format!(
            "a trigger {:?} exists already; choose another name, or remove it with `piste remove-trigger {}`",
            e.name, e.name
        ),
        E::AlreadyActive(Some(e)) => format!("session {:?} is already recording", e.session),
        E::NotActive(Some(e)) => format!(
            "session {:?} is not recording; start it with `piste start -s {}`",
            e.session, e.session
        ),
        E::NotSnapshot(Some(e)) => format!(
            "session {:?} writes its trace continuously; for snapshots, create a session with `piste create --snapshot`",
            e.session
        ),
        E::IsSnapshot(Some(e)) => format!(
            "session {:?} keeps its events in memory; write them with `piste snapshot record -s {}`",
            e.session, e.session
        ),
        E::NeverStarted(Some(e)) => format!(
            "session {:?} has not recorded anything yet; start it with `piste start -s {}`",
            e.session, e.session
        ),
        E::RotationInProgress(Some(e)) => {
            format!(
                "session {:?} is already being rotated; try again when that is done",
                e.session
            )
        }
        E::OutputExists(Some(e)) => format!(
            "cannot write a trace to {:?}: it exists and is not an empty folder; choose another with -o",
            e.path
        ),
        E::OutputFailed(Some(e)) => format!("cannot write to {:?}: {}", e.path, e.reason),
        E::NoPermission(Some(e)) => format!("{} is not permitted: {}", e.what, e.mend),
        E::ConsumerFailed(Some(e)) => format!("pisted's consumer failed: {}", e.reason),
        E::Internal(Some(e)) => format!("pisted failed: {}", e.reason),
        other => format!("pisted refused: {other}"),
    }
}

/// The option that chooses a domain.
fn option(domain: &interface::Domain) -> &'static str {
    match domain {
        interface::Domain::user => "-u",
        interface::Domain::kernel => "-k",
    }
}

/// `tracked: 5, 7`
fn tracked(kind: &str, values: &[String]) -> String {
    const SHOWN: usize = 20;
    if values.is_empty() {
        return format!("no {kind} is (see `piste status`)");
    }
    let shown = values
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match values.len().saturating_sub(SHOWN) {
        0 => format!("tracked: {shown}"),
        more => format!("tracked: {shown} and {more} more"),
    }
}

/// `; did you mean "web" or "wet"?`, or `hint` in brackets when nothing is near.
fn did_you_mean(nearest: &[String], hint: &str) -> String {
    match nearest {
        [] => format!(" ({hint})"),
        [one] => format!("; did you mean {one:?}?"),
        [firsts @ .., last] => {
            let firsts: Vec<String> = firsts.iter().take(4).map(|name| format!("{name:?}")).collect();
            format!("; did you mean {} or {last:?}?", firsts.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{
        Domain, NoChannel_Args, NoSession_Args, NoTrigger_Args, NothingEnabled_Args, TriggerExists_Args,
    };

    fn refused(kind: ErrorKind) -> String {
        Error::Refused(Box::new(kind)).to_string()
    }

    #[test]
    fn a_refusal_reads_as_a_sentence_with_the_nearest_names() {
        let no_session = |nearest: &[&str]| {
            refused(ErrorKind::NoSession(Some(NoSession_Args {
                name: "wbe".into(),
                nearest: nearest.iter().map(|name| name.to_string()).collect(),
            })))
        };
        assert_eq!(no_session(&[]), r#"there is no session "wbe" (see `piste list`)"#);
        assert_eq!(
            no_session(&["web"]),
            r#"there is no session "wbe"; did you mean "web"?"#
        );
        assert_eq!(
            no_session(&["web", "wet", "be"]),
            r#"there is no session "wbe"; did you mean "web", "wet" or "be"?"#
        );
        let no_channel = |domain| {
            refused(ErrorKind::NoChannel(Some(NoChannel_Args {
                name: "fast".into(),
                session: "web".into(),
                domain,
                nearest: Vec::new(),
            })))
        };
        for (domain, option) in [(Domain::user, "-u"), (Domain::kernel, "-k")] {
            let expected =
                format!(r#"session "web" has no channel "fast" (create it with `piste enable-channel {option} fast`)"#);
            assert_eq!(no_channel(domain), expected);
        }
        let nothing = |disabled_channels| {
            refused(ErrorKind::NothingEnabled(Some(NothingEnabled_Args {
                session: "web".into(),
                disabled_channels,
            })))
        };
        assert_eq!(
            nothing(vec![]),
            r#"session "web" has no enabled events; enable some with `piste enable-event -s web -u '*'`, or -k for the kernel's"#
        );
        assert_eq!(
            nothing(vec!["often".into()]),
            r#"session "web" has no enabled events outside its disabled channels (often); enable these with `piste enable-channel -s web`, or -k for the kernel's"#
        );
    }
    #[test]
    fn refusals_about_triggers_say_what_to_do() {
        let no_trigger = |nearest: &[&str]| {
            refused(ErrorKind::NoTrigger(Some(NoTrigger_Args {
                name: "slwo".into(),
                nearest: nearest.iter().map(|name| name.to_string()).collect(),
            })))
        };
        assert_eq!(
            no_trigger(&[]),
            r#"there is no trigger "slwo" (see `piste list-triggers`)"#
        );
        assert_eq!(
            no_trigger(&["slow"]),
            r#"there is no trigger "slwo"; did you mean "slow"?"#
        );
        let exists = ErrorKind::TriggerExists(Some(TriggerExists_Args { name: "slow".into() }));
        assert_eq!(
            refused(exists),
            r#"a trigger "slow" exists already; choose another name, or remove it with `piste remove-trigger slow`"#
        );
    }
}
