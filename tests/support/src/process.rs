// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs and ends processes. Nothing here waits without limit: what takes longer than [`PATIENCE`] hangs, and is ended with a panic
//! that says what it was. That is a guard, no measure.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Far more than anything here takes on a busy computer.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// How soon to look again. After a look that takes long, it rests twice as long, but not longer than the second of these.
const LOOK_AGAIN: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(20)];

/// A process that has ended.
pub struct Finished {
    /// What was run, for messages.
    pub command: String,
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// Its standard output, but for the lines that were taken while it ran.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// Whether it ended with status 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// Itself, when it ended with status 0.
    ///
    /// # Panics
    /// It did not.
    pub fn expect_success(&self) -> &Finished {
        assert!(self.success(), "{self}");
        self
    }

    /// Itself, when it ended with status 0 and complained about nothing.
    ///
    /// # Panics
    /// It did not.
    pub fn expect_silent_success(&self) -> &Finished {
        assert!(self.success() && self.stderr.is_empty(), "{self}");
        self
    }

    /// Itself, when it ended with this status.
    ///
    /// # Panics
    /// It did not.
    pub fn expect_status(&self, status: i32) -> &Finished {
        assert_eq!(self.status, status, "{self}");
        self
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finished {
            command,
            status,
            stdout,
            stderr,
        } = self;
        let stdout: String = stdout.chars().take(4000).collect();
        write!(
            f,
            "{command}\nended with status {status}\nstdout: {stdout}\nstderr: {stderr}"
        )
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Finished {
    let mut running = Running::start(command.stdin(Stdio::null()));
    running.finish()
}

/// A process that is ended, if it still runs, when this is dropped.
pub struct Running {
    child: Child,
    command: String,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<thread::JoinHandle<String>>,
}

impl Running {
    /// Starts a command with its output piped; standard input too, unless the command says otherwise.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Running {
        let shown = shown(command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
        let lines = lines_of(child.stdout.take().expect("it is piped"));
        let mut errors = child.stderr.take().expect("it is piped");
        let stderr = thread::spawn(move || {
            let mut bytes = vec![];
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let stdin = child.stdin.take();
        Running {
            child,
            command: shown,
            stdin,
            lines,
            stderr: Some(stderr),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its standard input is piped");
        // In one piece: whoever has read the line may be gone before its end would be written.
        let written = stdin.write_all(format!("{line}\n").as_bytes());
        written.unwrap_or_else(|error| panic!("{}: {line:?}: {error}", self.command));
    }

    /// The next line of its standard output; `None` at the end.
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => panic!("{} says nothing for {PATIENCE:?}", self.command),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The next line of its standard output.
    pub fn line(&mut self) -> String {
        self.next_line()
            .unwrap_or_else(|| panic!("no more lines: {}", self.finish()))
    }

    /// Says a line and returns the answer to it, a line too.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.line()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Waits until something is so that is so only while it runs.
    ///
    /// # Panics
    /// It ends before that.
    pub fn wait_until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(what, || {
            let runs = self.runs();
            let is_now = is_so();
            assert!(is_now || runs, "{what}: it has ended: {}", self.finish());
            is_now
        });
    }

    /// Closes its standard input and waits for its end.
    pub fn finish(&mut self) -> Finished {
        self.stdin = None;
        let deadline = Instant::now() + PATIENCE;
        let mut stdout = String::new();
        // The output ends when nobody has it open any more; that may be later than the process.
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    stdout += &line;
                    stdout.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("{} still runs after {PATIENCE:?}; it said {stdout}", self.command);
                }
            }
        }
        wait_until(&format!("{} ends", self.command), || !self.runs());
        let status = self.child.wait().expect("it is our child");
        Finished {
            command: self.command.clone(),
            status: status
                .code()
                .or(status.signal().map(|signal| 128 + signal))
                .unwrap_or(-1),
            stdout,
            stderr: self
                .stderr
                .take()
                .and_then(|reader| reader.join().ok())
                .unwrap_or_default(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    // Bounded, so that a process that says much waits for who listens.
    let (sender, receiver) = sync_channel(1 << 16);
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = vec![];
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Sends a signal to a process; that it has ended meanwhile is no error.
pub fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Stops a process and waits until all its threads have stopped, which takes a while on a busy machine.
///
/// # Panics
/// It does not stop.
pub fn stop(pid: i32) {
    send(pid, Signal::STOP);
    // A thread in an uninterruptible wait (D) stops before it returns to the program.
    wait_until("it has stopped", || !has_thread(pid, |state| !"TDZX".contains(state)));
}

/// Whether any thread of a process still runs. Until the last one has ended, its descriptors are open.
pub fn exists(pid: i32) -> bool {
    has_thread(pid, |state| !"ZX".contains(state))
}

/// Whether any thread's state, a letter as in proc(5), is meant.
fn has_thread(pid: i32, is_meant: impl Fn(char) -> bool) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    threads.filter_map(Result::ok).any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(&is_meant)
    })
}

/// Waits until something is so.
///
/// # Panics
/// It does not become so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let [least, most] = LOOK_AGAIN;
    loop {
        let begin = Instant::now();
        if is_so() {
            return;
        }
        let end = Instant::now();
        assert!(end < deadline, "{what}: not so after {PATIENCE:?}");
        thread::sleep((2 * (end - begin)).clamp(least, most));
    }
}

/// A CPU that this process may run on: the first one, which was always online. On a CPU that was offline once, Linux 6.18 no longer
/// reports switches away from the idle thread.
///
/// # Panics
/// The kernel does not tell.
#[must_use]
pub fn allowed_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel's text");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("a list");
    list.trim().split(['-', ',']).next().expect("a CPU").to_owned()
}
