// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control process: carries out what `session` decides.
//!
//! ```text
//!   programs --app.sock-->  connections --.                       .--> connections --> programs
//!   people --control.sock-> server, inbox --> daemon --> machine --> daemon --> journal
//!   consumers -------------> consumer ----'   (one thread)        '--> consumer, rings
//! ```
//!
//! - [`daemon`]: the loop; start here; [`carrier`]: how the effects are carried out;
//! - [`server`], [`requests`], [`replies`], [`inbox`]: people and their questions; [`commands`], [`recording`], [`rotation`], [`output`], [`archive`]: what
//!   they ask;
//!   [`reports`], [`status`]: what they are shown;
//! - [`waiting`]: answers that have to wait;
//! - [`connections`], [`turns`], [`process_facts`], [`complaints`]: traced programs;
//! - [`consumer`], [`keeper`], [`upkeep`]: the other processes;
//! - [`counters`]: whether programs can read the processor's counters;
//! - [`tracking_commands`], [`tracked_words`]: what people ask a session to be about;
//! - [`triggers`], [`session_events`]: what is done when an event matches, and who is told;
//! - [`kernel_commands`], [`kernel_words`]: what people ask of the kernel domain; [`kernel_desk`], [`kernel_checks`], [`leftovers`]: what the
//!   kernel is asked for it;
//! - [`journal`], [`trial`], [`state_page`], [`sockets`], [`poll`], [`clock`], [`host`]: files, sockets, time, the computer.

pub mod archive;
pub mod boards;
pub mod carrier;
pub mod clock;
pub mod commands;
pub mod complaints;
pub mod connections;
pub mod consumer;
pub mod counters;
pub mod creator;
pub mod daemon;
pub mod files;
pub mod flush;
pub mod foreign;
pub mod host;
pub mod inbox;
pub mod journal;
pub mod keeper;
pub mod kernel_checks;
pub mod kernel_commands;
pub mod kernel_desk;
pub mod kernel_lists;
pub mod kernel_words;
pub mod leftovers;
pub mod output;
pub mod poll;
pub mod process_facts;
pub mod program_list;
pub mod recording;
pub mod replies;
pub mod reports;
pub mod requests;
pub mod rotation;
pub mod server;
pub mod session_events;
pub mod sockets;
pub mod state_page;
pub mod status;
pub mod tracked_words;
pub mod tracking_commands;
pub mod trial;
pub mod triggers;
pub mod turns;
pub mod upkeep;
pub mod waiting;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use piste_control::Places;
use piste_reason::reason;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::clock::TraceClock;
use self::connections::Connections;
use self::consumer::{Consumer, Found};
use self::daemon::{Daemon, Parts};
use self::files::Files;
use self::journal::Journal;
use self::kernel_desk::{Kept, KernelDesk};
use self::poll::{Poll, Watched};
use self::sockets::{Access, listen};
use self::upkeep::Adopted;
use crate::bell::Bell;
use crate::session::{Host, Machine};
use crate::shares::Users;

/// The revision that this pisted was built from.
pub const COMMIT: &str = match option_env!("PISTE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Members may control root's pisted.
const GROUP: &str = "tracing";

/// Runs the control process until it is told to end. `ready` is called once people and programs can connect.
///
/// # Errors
/// Another pisted runs, or the run folder, the sockets or the consumer cannot be had.
pub fn run(places: Places, exit_when_idle: Option<Duration>, ready: impl FnOnce()) -> io::Result<()> {
    places.make_run_folder().map_err(io::Error::other)?;
    // Before anything is open that a new pisted needs.
    let bell = Bell::new()?;
    let files = Files::begin()?;
    let _lock = lock(&places)?;
    let descriptor_count_max = allow_descriptors();
    let boot_id = host::boot_id()?;
    let (journal, past) = Journal::open(&places.journal(), &boot_id)?;
    let set_aside = past.set_aside.iter().map(|(_, finding)| finding);
    for finding in past.findings.iter().chain(set_aside) {
        eprintln!("pisted: {finding}");
    }

    let poll = Poll::new()?;
    let signals = signals(&poll)?;
    let clock = TraceClock::choose(places.run_folder(), &boot_id);
    let host = Host {
        ring_count: host::possible_cpu_count(),
        clock: clock.source(),
        users: Users::of_this_process(),
        ring_set_count_max: connections::count_max(descriptor_count_max),
        kernel_ring_bytes_max: host::memory_bytes() / 2,
    };
    let mut machine = Machine::new(host, past.sessions, clock::now().boot_ns);
    for (session, finding) in past.set_aside {
        session
            .into_iter()
            .for_each(|session| machine.add_finding(session, finding.clone()));
    }
    let adopted = Adopted {
        user: Consumer::adopt(&places.consumer_socket())?,
        kernel: Consumer::find(&places.kernel_consumer_socket()),
    };

    let is_root = rustix::process::geteuid().is_root();
    let programs_access = if is_root { Access::All } else { Access::Owner };
    let programs = listen(
        &places.app_socket(),
        SocketType::SEQPACKET,
        SocketFlags::NONBLOCK,
        programs_access,
    )?;
    let people_access = host::group_id(GROUP)
        .filter(|_| is_root)
        .map_or(Access::Owner, Access::Group);
    let people = listen(
        &places.control_socket(),
        SocketType::STREAM,
        SocketFlags::empty(),
        people_access,
    )?;

    let connections = Connections::new(programs, descriptor_count_max, &poll)?;
    let (inbox, commands, clients) = inbox::inbox(bell, &poll)?;
    let desk = KernelDesk::open(places.run_folder(), kept_in_kernel(&machine, &adopted))?;
    let state_page = places.state_page().to_owned();
    let mut daemon = Daemon::new(Parts {
        places,
        machine,
        clock,
        poll,
        journal,
        connections,
        commands,
        clients,
        inbox: inbox.clone(),
        files,
        desk: desk.clone(),
        exit_when_idle,
    });
    daemon.begin(adopted)?;
    server::serve(people, inbox, desk)?;
    if let Err(error) = state_page::announce(&state_page) {
        eprintln!(
            "pisted: cannot notify running programs, so some of them may not register: {}",
            reason(&error)
        );
    }
    ready();
    let ended = daemon.run();
    drop(signals);
    ended
}

/// What this run folder may have in the kernel. A kernel consumer that lives closes itself what nobody knows.
fn kept_in_kernel(machine: &Machine, adopted: &Adopted) -> Kept {
    match adopted.kernel {
        Ok(Found::Nobody | Found::Dead(_)) => {
            Kept::Sessions(machine.sessions().iter().map(|(session, _)| session).collect())
        }
        Ok(Found::Living(_)) | Err(_) => Kept::Everything,
    }
}

/// Makes sure that there is one pisted in a run folder, as long as the file lives.
fn lock(places: &Places) -> io::Result<File> {
    let path = places.lock();
    let mut file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .mode(0o644)
        .open(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            let what = format!("another pisted is already running, with pid {}", pid.trim());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        Err(error) => return Err(error.into()),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// As many open files as the system lets us have: some for each program. Returns how many.
fn allow_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // It can only fail for a limit above the maximum.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lets the signals that end a process end the loop.
fn signals(poll: &Poll) -> io::Result<UnixStream> {
    let (readable, writable) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, writable.try_clone()?)?;
    }
    poll.add(readable.as_fd(), Watched::Signal)?;
    Ok(readable)
}
