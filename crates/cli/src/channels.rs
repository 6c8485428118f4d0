// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste enable-channel` and `disable-channel`, and how a command works on several channels.

use piste_control::interface::{
    ChannelSettings, Domain, ErrorKind, LossMode, NoChannel_Args, SessionStatus, VarlinkClientInterface,
};
use piste_control::{Client, Error};
use piste_patterns::nearest;
use serde_json::json;

use crate::arguments::{DisableChannel, EnableChannel};
use crate::failure::Failure;
use crate::json::of_pisted;
use crate::quantity::{duration, size};
use crate::screen::{STRONG, printable, show, show_json, styled};
use crate::session::connect;

/// `piste enable-channel`
pub(crate) fn enable_channel(arguments: EnableChannel, json: bool) -> Result<(), Failure> {
    let mut request = arguments.options.request(arguments.domain.chosen(), String::new());
    let mut client = connect()?;
    let session = arguments.session.session;
    let enabled = for_each(&arguments.names, |name| {
        request.name.clone_from(name);
        let reply = client.calls().enable_channel(session.clone(), request.clone()).call()?;
        Ok(reply.channel)
    })?;
    told(&enabled, json, |channel| {
        let contexts = match &*contexts(channel) {
            "" => "without contexts".into(),
            contexts => format!("with {contexts}"),
        };
        format!(
            "{}: {}, rings of {}, {contexts}",
            name_of(channel),
            loss_mode(channel),
            rings(channel)
        )
    })
}

/// `piste disable-channel`
pub(crate) fn disable_channel(arguments: DisableChannel, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    let (session, domain) = (arguments.session.session, arguments.domain.chosen());
    check_exist(&mut client, session.as_ref(), &domain, &arguments.names)?;
    let disabled = for_each(&arguments.names, |name| {
        let (session, name, domain) = (session.clone(), name.clone(), domain.clone());
        let reply = client.calls().disable_channel(session, name, Some(domain)).call()?;
        Ok(reply.channel)
    })?;
    told(&disabled, json, |channel| format!("disabled {}", name_of(channel)))
}

/// Refuses several channels of which one does not exist, before anything is done with the others.
fn check_exist(
    client: &mut Client,
    session: Option<&String>,
    domain: &Domain,
    names: &[String],
) -> Result<(), Failure> {
    if names.len() < 2 {
        return Ok(());
    }
    let session = client.calls().status(session.cloned()).call()?.session;
    let known = of_domain(&session, domain).map(|(name, _)| name);
    let Some(unknown) = names.iter().find(|name| !known.clone().any(|known| known == *name)) else {
        return Ok(());
    };
    let no_channel = NoChannel_Args {
        name: unknown.clone(),
        session: session.name.clone(),
        domain: domain.clone(),
        nearest: nearest(unknown, known, 3),
    };
    Err(Error::Refused(Box::new(ErrorKind::NoChannel(Some(no_channel)))).into())
}

/// Does something with each of the channels that a command names, or with the default one: `None`. If one of several does not exist, nothing is
/// done.
pub(crate) fn with_named<T>(
    client: &mut Client,
    session: Option<&String>,
    domain: &Domain,
    names: &[String],
    mut act: impl FnMut(&mut Client, Option<String>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    if names.is_empty() {
        return Ok(vec![act(client, None)?]);
    }
    check_exist(client, session, domain, names)?;
    for_each(names, |name| act(client, Some(name.clone())))
}

/// A remark for each of the channels that is disabled.
pub(crate) fn disabled_notes(
    client: &mut Client,
    session: Option<String>,
    domain: &Domain,
    names: &[String],
) -> Result<Vec<String>, Failure> {
    let session = client.calls().status(session).call()?.session;
    let option = if *domain == Domain::kernel { "-k " } else { "" };
    let disabled =
        of_domain(&session, domain).filter(|(name, enabled)| !enabled && names.iter().any(|known| known == name));
    let note = |(name, _)| {
        let name = printable(name);
        format!(
            "note: channel {name} is disabled and records nothing; enable it with `piste enable-channel {option}{name}`"
        )
    };
    Ok(disabled.map(note).collect())
}

/// The channels of a domain, each with whether it is enabled.
fn of_domain<'s>(session: &'s SessionStatus, domain: &Domain) -> impl Iterator<Item = (&'s str, bool)> + Clone {
    let channels = session.channels.iter();
    let of_domain = channels.filter(move |channel| channel.settings.domain == *domain);
    of_domain.map(|channel| (&*channel.settings.name, channel.enabled))
}

/// Does something with each channel or trigger. A failure says with which of them it was done before.
pub(crate) fn for_each<T>(
    names: &[String],
    mut act: impl FnMut(&String) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut done = vec![];
    for name in names {
        done.push(act(name).map_err(|failure| failure.after(&names[..done.len()]))?);
    }
    Ok(done)
}

impl Failure {
    /// The failure of a command that has done its work for these channels.
    fn after(self, channels: &[String]) -> Failure {
        match self {
            Failure::Told { sentence, status } if !channels.is_empty() => {
                let channels = printable(&channels.join(", ")).into_owned();
                Failure::with_status(format!("{sentence}; already done for {channels}"), status)
            }
            other => other,
        }
    }
}

/// Shows channels: each on a line, or as JSON.
pub(crate) fn told(
    channels: &[ChannelSettings],
    json: bool,
    line: impl Fn(&ChannelSettings) -> String,
) -> Result<(), Failure> {
    match channels {
        [channel] if json => show_json(&of_pisted(channel)?),
        several if json => show_json(&json!({ "channels": of_pisted(&several)? })),
        channels => show(&channels.iter().map(|channel| line(channel) + "\n").collect::<String>()),
    }
}

/// `kernel channel calls`
pub(crate) fn name_of(channel: &ChannelSettings) -> String {
    let of_kernel = match channel.domain {
        Domain::kernel => "kernel ",
        Domain::user => "",
    };
    format!("{of_kernel}channel {}", styled(STRONG, printable(&channel.name)))
}

/// `discard`, `overwrite`, `block 500 ms`
pub(crate) fn loss_mode(channel: &ChannelSettings) -> String {
    match (&channel.loss, channel.block_timeout_us) {
        (LossMode::discard, _) => "discard".into(),
        (LossMode::overwrite, _) => "overwrite".into(),
        (LossMode::block, None) => "block forever".into(),
        (LossMode::block, Some(timeout_us)) => format!("block {}", duration(timeout_us.saturating_mul(1000))),
    }
}

/// `4 x 256 KiB`
pub(crate) fn rings(channel: &ChannelSettings) -> String {
    format!("{} x {}", channel.subbuf_count, size(channel.subbuf_bytes))
}

/// `vtid, cpu_id`, or nothing.
pub(crate) fn contexts(channel: &ChannelSettings) -> String {
    channel.contexts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_for_which_channels_the_work_was_done() {
        let names = ["often", "rare", "never"].map(str::to_owned);
        let until = |last: &str| {
            let act = |name: &String| match name == last {
                true => Err(Failure::new("no such rule")),
                false => Ok(name.len()),
            };
            match for_each(&names, act) {
                Ok(done) => format!("{done:?}"),
                Err(Failure::Told { sentence, .. }) => sentence,
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(until("often"), "no such rule");
        assert_eq!(until("never"), "no such rule; already done for often, rare");
        assert_eq!(until("none"), "[5, 4, 5]");
    }
}
