// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `piste` command. Here: arguments to commands, failures to sentences and exit statuses. Each command is a file:
//! record.rs, session.rs, rules.rs, list.rs, status.rs, doctor.rs, those of triggers in trigger/, `latency` in latency/, `bench` in bench/, calibrate.rs; what they show together is summary.rs.
//! They work through `piste_control`. view.rs and stats.rs
//! read traces, with `piste_trace`.

mod analyze;
mod arguments;
mod attendant;
mod bench;
mod calibrate;
mod call_stack;
mod channel_options;
mod channels;
mod child;
mod columns;
mod completion;
mod contexts;
mod descriptors;
mod diff;
mod doctor;
mod dynamic;
mod export;
mod failure;
mod filtered;
mod folder;
mod gate;
mod ids;
mod imported;
mod info;
mod insights;
mod json;
mod kernel_list;
mod kernel_rules;
mod latency;
mod list;
mod loss;
mod manual;
mod measuring;
mod moment;
mod nothing;
mod page;
mod patience;
mod preload;
mod preset;
mod quantity;
mod query;
mod record;
mod recording;
#[cfg(test)]
mod reference;
mod report;
mod rules;
mod screen;
mod session;
mod snapshot_triggers;
mod stats;
mod status;
mod strace;
mod summary;
mod top;
mod traces;
mod tracked;
mod trigger;
mod trim;
mod unfinished;
mod unwritten;
mod version;
mod view;
mod web;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::arguments::{Arguments, Command, PagerOption};
use crate::failure::{Failure, USAGE};
use crate::page::Page;

fn main() -> ExitCode {
    completion::answer();
    let arguments = match Arguments::of_process() {
        Ok(arguments) => arguments,
        Err(error) => return answer_usage(&error),
    };
    if arguments.json {
        screen::speak_json();
    }
    let result = run(arguments);
    imported::remove_temporary();
    match result {
        Ok(status) => status.into(),
        Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(Failure::Told { sentence, status }) => {
            screen::tell_failure(&sentence, status);
            status.into()
        }
    }
}

fn run(arguments: Arguments) -> Result<u8, Failure> {
    let json = arguments.json;
    match arguments.command {
        Command::Record(record) => return record::record(&record, json),
        Command::Strace(arguments) => return strace::strace(&arguments),
        Command::Create(create) => session::create(create, json),
        Command::SetSession { name } => session::set_current(name, json),
        Command::EnableChannel(channel) => channels::enable_channel(channel, json),
        Command::DisableChannel(channel) => channels::disable_channel(channel, json),
        Command::AddContext(context) => contexts::add_context(context, json),
        Command::EnableEvent(event) => rules::enable_event(event, json),
        Command::DisableEvent(event) => rules::disable_event(event, json),
        Command::Track(track) => tracked::track(&track, json),
        Command::Untrack(untrack) => tracked::untrack(&untrack, json),
        Command::Start(session) => session::start(session, json),
        Command::Stop(session) => session::stop(session, json),
        Command::Snapshot(snapshot) => session::snapshot(snapshot, json),
        Command::Rotate(session) => session::rotate(session, json),
        Command::Regenerate(regenerate) => session::regenerate(regenerate, json),
        Command::Destroy(destroy) => session::destroy(destroy, json),
        Command::List(list) => list::list(list, json),
        Command::Status { session, page } => status::status(session, &Page::new(&page), json),
        Command::AddTrigger(arguments) => trigger::add(&arguments, json),
        Command::ListTriggers(arguments) => trigger::list(&arguments, json),
        Command::RemoveTrigger(arguments) => trigger::remove(&arguments, json),
        Command::Listen(arguments) => trigger::listen(&arguments, json),
        Command::View(view) => view::view(&view, json),
        Command::Info(info) => info::info(&info, json),
        Command::Stats(stats) => stats::stats(&stats, json),
        Command::Trim(trim) => trim::trim(&trim, json),
        Command::Import(import) => imported::import(&import, json),
        Command::Export(export) => export::export(&export, json),
        Command::Analyze(analyze) => analyze::analyze(&analyze, json),
        Command::Insights(arguments) => insights::insights(&arguments, json),
        Command::Report(arguments) => report::report(&arguments, json),
        Command::Diff(arguments) => diff::diff(&arguments, json),
        Command::Top(arguments) => top::top(&arguments, json),
        Command::Web(arguments) => web::web(&arguments, json),
        Command::Latency(arguments) => latency::latency(&arguments, json),
        Command::GenerateLoad(arguments) => latency::generate_load(&arguments),
        Command::LatencyGuardian => latency::guard(),
        Command::LatencyLoop => {
            latency::run_loop();
            Ok(())
        }
        Command::Bench(arguments) => bench::bench(&arguments, json),
        Command::TimeCommand(arguments) => return bench::time_command(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments, json),
        Command::Query(query) => query::query(&query, json),
        Command::Doctor(pager) => return doctor::doctor(&Page::of_text(&pager), json),
        Command::Version => version::version(json),
        Command::Completions { shell } => completion::script(&shell),
        Command::Gate(gate) => return Ok(gate::become_command(&gate)),
        Command::Man { folder } => manual::pages(&folder),
    }?;
    Ok(0)
}

/// The help that was asked for, or what is wrong with the arguments.
fn answer_usage(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        let is_asked = |argument: &OsString| argument == "--json";
        if std::env::args_os()
            .take_while(|argument| argument != "--")
            .any(|argument| is_asked(&argument))
        {
            screen::speak_json();
        }
        // clap says "error: "; all of piste's sentences start with its name.
        match text.strip_prefix("error: ") {
            Some(sentence) => screen::tell_failure(sentence.trim_end(), USAGE),
            None => screen::tell(&text),
        }
        return USAGE.into();
    }
    // Whoever stops reading help needs no more of it.
    let _ = Page::of_text(&PagerOption::default()).show(&text);
    ExitCode::SUCCESS
}
