// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder of a measurement: a session that keeps the kernel's latest events in memory, until a value is as long as the limit. Then
//! a snapshot of it says what happened.
//!
//! It records what tells who had the CPUs and why: switches and wake-ups, interrupts, page faults, frequencies.

use std::path::{Path, PathBuf};

use piste_control::interface::{ChannelRequest, Domain, KernelEventKind, VarlinkClientInterface};
use piste_control::{Client, Error, Places};

use crate::folder::TraceFolder;
use crate::kernel_rules::{self, Wanted};
use crate::recording::{KERNEL_CHANNEL, USER_CHANNEL};

/// What is recorded of the kernel: presets, and tracepoints that most kernels have.
const PRESETS: [&str; 2] = ["sched", "irq"];
/// Programs make system calls, which say what they wait for.
const PRESETS_OF_PROGRAMS: [&str; 3] = ["sched", "irq", "syscalls"];
/// Of 64 kB for each CPU: 4 MB hold the latest second or so, and a snapshot is taken sooner.
const SUBBUF_COUNT: i64 = 64;
const TRACEPOINTS: [&str; 3] = ["exceptions:page_fault_*", "power:cpu_frequency", "nmi:nmi_handler"];

/// A session that records the kernel in memory. It ends with this, or with piste.
pub(super) struct Flight {
    places: Places,
    session: String,
    folder: Option<TraceFolder>,
}

impl Flight {
    /// Begins to record the kernel, and these events of programs. Snapshots go to the folder.
    ///
    /// # Errors
    /// pisted is not there, or refused; nothing is left behind.
    pub(super) fn start(places: Places, folder: TraceFolder, events: Vec<String>) -> Result<Flight, Error> {
        let session = format!("latency-{}", std::process::id());
        let output = Some(folder.path().to_owned());
        let flight = Flight {
            places,
            session,
            folder: Some(folder),
        };
        let mut client = Client::connect_or_start(&flight.places)?;
        let calls = client.calls();
        calls
            .create_session(Some(flight.session.clone()), output, true, None, Some(true), Some(true))
            .call()?;
        let session = Some(flight.session.clone());
        let channel = Some(KERNEL_CHANNEL.to_owned());
        calls
            .enable_channel(
                session.clone(),
                ChannelRequest {
                    subbuf_count: Some(SUBBUF_COUNT),
                    ..request(KERNEL_CHANNEL, Domain::kernel)
                },
            )
            .call()?;
        let presets = match events.is_empty() {
            true => &PRESETS[..],
            false => &PRESETS_OF_PROGRAMS[..],
        };
        kernel_rules::enable(calls, session.clone(), channel, wanted(presets))?;
        if !events.is_empty() {
            calls
                .enable_channel(session.clone(), request(USER_CHANNEL, Domain::user))
                .call()?;
            calls
                .enable_event(session.clone(), Some(USER_CHANNEL.into()), events, vec![], None, None)
                .call()?;
        }
        calls.start(session).call()?;
        Ok(flight)
    }

    /// Its session's name.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Somebody else has written a snapshot of it.
    pub(super) fn keep_folder(&mut self) {
        self.folder = None;
    }

    /// Writes what is in memory; the folder where it is.
    ///
    /// # Errors
    /// It could not be written.
    pub(super) fn snapshot(&mut self) -> Result<PathBuf, Error> {
        let mut client = Client::connect_or_start(&self.places)?;
        let reply = client
            .calls()
            .snapshot_record(Some(self.session.clone()), None)
            .call()?;
        self.keep_folder();
        Ok(Path::new(&reply.output).to_owned())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // If that fails, the session ends with this process.
        if let Ok(mut client) = Client::connect_or_start(&self.places) {
            let _ = client.calls().destroy_session(Some(self.session.clone())).call();
        }
        // Nothing was written.
        if let Some(folder) = self.folder.take() {
            folder.abandon();
        }
    }
}

fn request(name: &str, domain: Domain) -> ChannelRequest {
    ChannelRequest {
        name: name.into(),
        domain: Some(domain),
        loss: None,
        block_timeout_us: None,
        subbuf_bytes: None,
        subbuf_count: None,
        contexts: None,
        call_memory: None,
        addresses_only: None,
    }
}

fn wanted(presets: &[&str]) -> Vec<Wanted> {
    let of_presets = kernel_rules::of_presets(presets);
    let tracepoints = TRACEPOINTS.map(|pattern| Wanted {
        rule: kernel_rules::rule(KernelEventKind::tracepoint, pattern),
        // Not every kernel has them.
        preset: Some("latency"),
    });
    of_presets.into_iter().chain(tracepoints).collect()
}
