// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pisted in a run folder of its own, and programs that talk to it as the library does.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod program;
pub mod wire;

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use piste_control::interface::{ChannelRequest, SessionStatus, VarlinkClient, VarlinkClientInterface};
use tempfile::TempDir;

/// Far more than anything takes on a busy computer. A guard, no measure.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A running pisted. Dropping it ends it and its consumer, and removes the folder.
pub struct Pisted {
    pub folder: TempDir,
    /// A folder to put first in its PATH.
    pub path_before: Option<PathBuf>,
    control: Option<Child>,
}

impl Pisted {
    pub fn start() -> Pisted {
        Pisted::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Pisted {
        let mut pisted = Pisted {
            folder: tempfile::tempdir().unwrap(),
            path_before: None,
            control: None,
        };
        pisted.start_again(arguments);
        pisted
    }

    /// One that another user runs: `None` when the built pisted is out of that user's reach.
    pub fn start_as(uid: u32) -> Option<Pisted> {
        let mut pisted = Pisted {
            folder: tempfile::tempdir().unwrap(),
            path_before: None,
            control: None,
        };
        std::os::unix::fs::chown(pisted.run_folder(), Some(uid), None).unwrap();
        let child = pisted.command(&[]).uid(uid).current_dir("/").spawn();
        match child {
            Ok(child) => pisted.control = Some(child),
            Err(error) => {
                println!("skipped: pisted cannot be started by user {uid}: {error}");
                return None;
            }
        }
        pisted.wait_until_it_answers();
        Some(pisted)
    }

    /// Starts a new control process in the same run folder, and waits until it listens.
    pub fn start_again(&mut self, arguments: &[&str]) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.run_folder().join("log"))
            .unwrap();
        let _ = fs::remove_file(self.run_folder().join("control.sock"));
        let child = self.command(arguments).stderr(log).spawn().unwrap();
        self.control = Some(child);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        wait_until("pisted answers", || {
            self.try_client()
                .is_ok_and(|mut client| client.version().call().is_ok())
        });
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pisted"));
        command
            .args(arguments)
            .env("PISTE_RUNDIR", self.run_folder())
            .stdin(Stdio::null());
        if let Some(first) = &self.path_before {
            let path = std::env::var("PATH").unwrap();
            command.env("PATH", format!("{}:{path}", first.display()));
        }
        command
    }

    pub fn run_folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn output(&self, name: &str) -> PathBuf {
        self.run_folder().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.run_folder().join("log")).unwrap_or_default()
    }

    /// SIGKILL, as an accident would.
    pub fn kill(&mut self) {
        let mut control = self.control.take().unwrap();
        control.kill().unwrap();
        control.wait().unwrap();
    }

    pub fn child(&mut self) -> &mut Child {
        self.control.as_mut().unwrap()
    }

    pub fn try_client(&self) -> io::Result<VarlinkClient> {
        let stream = UnixStream::connect(self.run_folder().join("control.sock"))?;
        let mut connection = varlink::Connection::default();
        connection.reader = Some(io::BufReader::new(Box::new(stream.try_clone()?)));
        connection.writer = Some(Box::new(stream));
        Ok(VarlinkClient::new(Arc::new(RwLock::new(connection))))
    }

    pub fn client(&self) -> VarlinkClient {
        self.try_client().unwrap()
    }

    pub fn status(&self, session: &str) -> SessionStatus {
        self.client().status(Some(session.into())).call().unwrap().session
    }

    /// Creates a session with one rule.
    pub fn create(&self, session: &str, pattern: &str) {
        let mut client = self.client();
        let output = self.output(session).to_str().unwrap().to_owned();
        client
            .create_session(Some(session.into()), Some(output), false, None, None, None)
            .call()
            .unwrap();
        client
            .enable_event(Some(session.into()), None, vec![pattern.into()], vec![], None, None)
            .call()
            .unwrap();
    }

    pub fn start_session(&self, session: &str) {
        self.client().start(Some(session.into())).call().unwrap();
    }

    /// Process ids of the programs' consumers of this run folder.
    pub fn consumers(&self) -> Vec<i32> {
        self.processes("--consumer")
    }

    /// Process ids of the kernel consumers of this run folder.
    pub fn kernel_consumers(&self) -> Vec<i32> {
        self.processes("--kernel-consumer")
    }

    fn processes(&self, argument: &str) -> Vec<i32> {
        let setting = format!("PISTE_RUNDIR={}", self.run_folder().display());
        let is_ours = |pid: &i32| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let has = |bytes: &[u8], text: &str| bytes.split(|&byte| byte == 0).any(|part| part == text.as_bytes());
            has(&read("cmdline"), argument) && has(&read("environ"), &setting)
        };
        let entries = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        entries.filter_map(|name| name.parse().ok()).filter(is_ours).collect()
    }
}

impl Pisted {
    /// SIGKILL for everybody, whoever is there.
    pub fn end(&mut self) {
        if let Some(mut control) = self.control.take() {
            let _ = control.kill();
            let _ = control.wait();
        }
        for pid in self.consumers().into_iter().chain(self.kernel_consumers()) {
            kill(pid);
        }
    }
}

impl Drop for Pisted {
    fn drop(&mut self) {
        self.end();
        if thread::panicking() {
            eprintln!("pisted said: {}", self.log());
        }
    }
}

pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Whether a process is gone with all that it had open: a dying one, which has no command line any more, still has its sockets.
pub fn is_over(pid: i32) -> bool {
    let is_thread_over = |stat: PathBuf| {
        let text = fs::read_to_string(stat).unwrap_or_default();
        text.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    threads.map(|thread| thread.path().join("stat")).all(is_thread_over)
}

pub fn channel_request(name: &str) -> ChannelRequest {
    ChannelRequest {
        name: name.into(),
        domain: None,
        loss: None,
        block_timeout_us: None,
        subbuf_bytes: None,
        subbuf_count: None,
        contexts: None,
        call_memory: None,
        addresses_only: None,
    }
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
