// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection to pisted. The calls themselves are generated (`interface.rs`); here is how to get to them, and how a pisted
//! is started when none runs.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use piste_reason::reason;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, test_kill_process};

use crate::error::Error;
use crate::interface::{Program, VarlinkClient, VarlinkClientInterface};
use crate::places::Places;

/// How long a pisted that was started here may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to go on trying when it ended at once: another one, started at the same moment, may hold the lock.
const OTHER_STARTS_TIMEOUT: Duration = Duration::from_secs(2);
/// Why there is no pisted to start, where only the command was installed.
const NOT_INSTALLED: &str = "it is neither beside this program nor in PATH; install it, for example with \
    `cargo install --path crates/daemon` in Piste's source folder, or add its folder to PATH";

/// A connection to pisted. One call at a time.
pub struct Client {
    calls: VarlinkClient,
    started_pisted: bool,
}

impl Client {
    /// Connects to the pisted of `places`.
    ///
    /// # Errors
    /// [`Error::NoDaemon`] when none runs; [`Error::Denied`]; [`Error::RunFolder`].
    pub fn connect(places: &Places) -> Result<Client, Error> {
        Client::connect_within(places, None)
    }

    /// The same, for those who go on without an answer: a call fails when pisted is silent for `answer`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(places: &Places, answer: Option<Duration>) -> Result<Client, Error> {
        places.check_run_folder()?;
        let socket = places.control_socket();
        let limited = |stream: UnixStream| {
            stream.set_read_timeout(answer)?;
            stream.set_write_timeout(answer)?;
            Ok(stream)
        };
        let stream = UnixStream::connect(&socket).and_then(of_living);
        match stream.and_then(limited).and_then(Client::over) {
            Ok(client) => Ok(client),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::NoDaemon {
                    run_folder: places.run_folder().into(),
                },
                io::ErrorKind::PermissionDenied => Error::Denied { socket },
                _ => Error::Socket { socket, error },
            }),
        }
    }

    /// Connects to the pisted of `places`, and starts one in the background when none runs.
    ///
    /// # Errors
    /// [`Error::NotStarted`] with what pisted said; [`Error::Denied`]; [`Error::RunFolder`].
    pub fn connect_or_start(places: &Places) -> Result<Client, Error> {
        match Client::connect(places) {
            Err(Error::NoDaemon { .. }) => start(places).map(|client| Client {
                started_pisted: true,
                ..client
            }),
            result => result,
        }
    }

    /// Whether pisted was started for this connection: programs that waited for one are about to register.
    pub fn started_pisted(&self) -> bool {
        self.started_pisted
    }

    /// A client that talks over `stream`.
    fn over(stream: UnixStream) -> io::Result<Client> {
        let mut connection = varlink::Connection::default();
        connection.reader = Some(BufReader::new(Box::new(stream.try_clone()?)));
        connection.writer = Some(Box::new(stream));
        Ok(Client {
            calls: VarlinkClient::new(Arc::new(RwLock::new(connection))),
            started_pisted: false,
        })
    }

    /// The methods of the interface, those of [`VarlinkClientInterface`](crate::interface::VarlinkClientInterface).
    pub fn calls(&mut self) -> &mut VarlinkClient {
        &mut self.calls
    }
}

/// The connected programs, each with all its events: `ListPrograms`, whose answer comes in parts.
///
/// # Errors
/// As the method's.
pub fn programs(calls: &mut VarlinkClient) -> Result<Vec<Program>, Error> {
    let mut programs: Vec<Program> = Vec::new();
    for part in calls.list_programs().more()? {
        let part = part?;
        let mut more = part.programs.into_iter();
        if part.continued
            && let (Some(last), Some(rest)) = (programs.last_mut(), more.next())
        {
            last.events.extend(rest.events);
        }
        programs.extend(more);
    }
    Ok(programs)
}

/// The connection, if whoever listens there lives. A process that pisted is just starting has pisted's sockets until it is another program; if
/// pisted is killed meanwhile, clients can still connect, and nobody answers.
fn of_living(stream: UnixStream) -> io::Result<UnixStream> {
    // One in another pid namespace has no number here.
    let is_dead = socket_peercred(&stream).is_ok_and(|peer| is_over(peer.pid));
    match is_dead {
        true => Err(io::ErrorKind::ConnectionRefused.into()),
        false => Ok(stream),
    }
}

/// Whether a process has ended, or has all but its place in the list of processes.
fn is_over(pid: Pid) -> bool {
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return true;
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| "ZX".contains(state))
}

/// Starts `pisted --background` and waits until it listens. That leaves the terminal's session by itself, and in its log its
/// last line says why it could not come up.
fn start(places: &Places) -> Result<Client, Error> {
    places.make_run_folder()?;
    let program = find_daemon();
    let failed = |reason: String| Error::NotStarted {
        program: program.display().to_string(),
        reason,
    };

    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(0o600)
        .open(places.log())
        .map_err(|error| failed(format!("cannot open {}: {}", places.log().display(), reason(&error))))?;
    let log_bytes = log.seek(SeekFrom::End(0)).map_err(|error| failed(reason(&error)))?;

    let mut command = Command::new(&program);
    command
        .arg("--background")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().map_err(|error| failed(reason(&error)))?)
        .current_dir("/")
        // Helpers preloaded into this program are no business of pisted's.
        .env_remove("LD_PRELOAD")
        .env_remove("PISTE_RECORD");
    if let Some(run_folder) = places.setting() {
        // The setting here may be relative to this folder; pisted's is another.
        command.env("PISTE_RUNDIR", run_folder);
    }
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed(NOT_INSTALLED.into()),
        _ => failed(reason(&error)),
    })?;
    wait_until_it_listens(places, &mut child).map_err(|error| match error {
        Error::NoDaemon { .. } => failed(last_words(&mut log, log_bytes).unwrap_or_else(|| {
            format!(
                "it did not listen within {} s, and {} does not say why",
                START_TIMEOUT.as_secs(),
                places.log().display()
            )
        })),
        other => other,
    })
}

fn wait_until_it_listens(places: &Places, child: &mut Child) -> Result<Client, Error> {
    let mut deadline = Instant::now() + START_TIMEOUT;
    let mut ended = false;
    let mut pause = Duration::from_millis(1);
    loop {
        match Client::connect(places) {
            Err(Error::NoDaemon { run_folder }) if Instant::now() >= deadline => {
                return Err(Error::NoDaemon { run_folder });
            }
            Err(Error::NoDaemon { .. }) => {}
            result => {
                reap(child);
                return result;
            }
        }
        // With success it ends once it has left another process behind.
        if !ended && let Ok(Some(status)) = child.try_wait() {
            ended = true;
            if !status.success() {
                deadline = deadline.min(Instant::now() + OTHER_STARTS_TIMEOUT);
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The process that left pisted behind ends at about the time when that listens. Nobody else waits for it while this program runs.
fn reap(child: &mut Child) {
    for _ in 0..50 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The last line that was written to the log since it had `from_bytes`.
fn last_words(log: &mut fs::File, from_bytes: u64) -> Option<String> {
    log.seek(SeekFrom::Start(from_bytes)).ok()?;
    let mut said = Vec::new();
    log.take(1 << 16).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.trim_start_matches("pisted: ").to_owned())
}

/// pisted beside this program, else from PATH.
fn find_daemon() -> PathBuf {
    env::current_exe().map_or_else(|_| "pisted".into(), |program| daemon_beside(&program))
}

/// pisted beside a program, else from PATH.
pub fn daemon_beside(program: &Path) -> PathBuf {
    let beside = program.with_file_name("pisted");
    match is_executable(&beside) {
        true => beside,
        false => "pisted".into(),
    }
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::interface::{ErrorKind, VarlinkClientInterface};

    /// Asks for a session over a connection whose other end answers with `reply`, if it has one, and closes.
    fn ask(reply: Option<&'static str>) -> Error {
        let (near, mut far) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || {
            let mut byte = [1];
            while far.read(&mut byte).unwrap() == 1 && byte[0] != 0 {}
            if let Some(reply) = reply {
                far.write_all(reply.as_bytes()).unwrap();
                far.write_all(&[0]).unwrap();
            }
        });
        let error = Client::over(near)
            .unwrap()
            .calls()
            .status(Some("web".into()))
            .call()
            .unwrap_err()
            .into();
        server.join().unwrap();
        error
    }

    #[test]
    fn a_socket_that_only_a_child_of_a_dead_pisted_has_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let (own, inherited) = (folder.path().join("own"), folder.path().join("inherited"));
        let _listener = UnixListener::bind(&own).unwrap();
        assert!(UnixStream::connect(&own).and_then(of_living).is_ok());
        let code = "\
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
if os.fork() == 0:
    sys.stdin.read()
";
        let mut command = Command::new("python3");
        command.args(["-c", code]).arg(&inherited).stdin(Stdio::piped());
        let mut listens = command.spawn().unwrap();
        let held_open = listens.stdin.take();
        assert!(listens.wait().unwrap().success());
        let error = UnixStream::connect(&inherited).and_then(of_living).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        drop(held_open);
    }

    #[test]
    fn a_refusal_comes_with_its_parameters() {
        let error = ask(Some(
            r#"{"error":"dev.piste.Control.NoSession","parameters":{"name":"web","nearest":["wet"]}}"#,
        ));
        assert!(matches!(error.refusal(), Some(ErrorKind::NoSession(Some(refusal))) if refusal.nearest == ["wet"]));
    }

    #[test]
    fn a_pisted_that_ends_or_speaks_otherwise_is_told_apart() {
        assert!(matches!(ask(None), Error::Gone));
        assert!(matches!(
            ask(Some(r#"{"error":"dev.piste.Control.NewRefusal"}"#)),
            Error::OtherVersion { .. }
        ));
        assert!(matches!(ask(Some(r#"{"parameters":{}}"#)), Error::OtherVersion { .. }));
    }

    #[test]
    fn the_last_line_since_the_start_is_what_pisted_said() {
        let mut log = tempfile::tempfile().unwrap();
        writeln!(log, "pisted: of an earlier run").unwrap();
        let before_bytes = log.stream_position().unwrap();
        assert_eq!(last_words(&mut log, before_bytes), None);
        writeln!(log, "pisted: first\npisted: no space left on /run\n").unwrap();
        assert_eq!(
            last_words(&mut log, before_bytes).as_deref(),
            Some("no space left on /run")
        );
    }
}
