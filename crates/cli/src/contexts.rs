// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste add-context`: more values beside each event of a channel.

use piste_control::contexts::{Context, OF_KERNEL, OF_PROGRAMS};
use piste_control::interface::VarlinkClientInterface;
use serde_json::{Value, json};

use crate::arguments::AddContext;
use crate::channels::{contexts, name_of, told, with_named};
use crate::failure::Failure;
use crate::screen::{STRONG, printable, show, show_json, styled};
use crate::session::connect;

/// A context of the programs' own, as it is listed.
const OF_APPLICATIONS: Context = Context {
    name: "app:PROVIDER:NAME",
    what: "a value that the program defines (<piste/context.h>)",
};

/// `piste add-context`
pub(crate) fn add_context(arguments: AddContext, json: bool) -> Result<(), Failure> {
    if arguments.list {
        return list(json);
    }
    let mut client = connect()?;
    let (session, names) = (arguments.session.session, &arguments.channels);
    let domain = arguments.domain.chosen();
    let channels = with_named(&mut client, session.as_ref(), &domain, names, |client, channel| {
        let (session, contexts) = (session.clone(), arguments.contexts.clone());
        let reply = client
            .calls()
            .add_contexts(session, channel, contexts, Some(domain.clone()))
            .call()?;
        Ok(reply.channel)
    })?;
    told(&channels, json, |channel| {
        format!("{}: with {}", name_of(channel), printable(&contexts(channel)))
    })
}

fn list(json: bool) -> Result<(), Failure> {
    let of_programs = || OF_PROGRAMS.iter().chain([&OF_APPLICATIONS]);
    if json {
        let told = |context: &Context| json!({ "name": context.name, "what": context.what });
        let list = |contexts: &mut dyn Iterator<Item = &Context>| contexts.map(told).collect::<Vec<Value>>();
        return show_json(&json!({
            "user": list(&mut of_programs()),
            "kernel": list(&mut OF_KERNEL.iter()),
        }));
    }
    let table = |contexts: &mut dyn Iterator<Item = &Context>| {
        let line = |context: &Context| {
            format!(
                "  {} {}\n",
                styled(STRONG, format!("{:<33}", context.name)),
                context.what
            )
        };
        contexts.map(line).collect::<String>()
    };
    show(&format!(
        "channels of programs:\n{}\nchannels of the kernel (-k):\n{}",
        table(&mut of_programs()),
        table(&mut OF_KERNEL.iter())
    ))
}
