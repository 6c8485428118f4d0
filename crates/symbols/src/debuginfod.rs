// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs and debug files from the network: asked of the servers in `DEBUGINFOD_URLS` by `debuginfod-find`, the program of elfutils, which
//! keeps what it has found.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::binary::{Cache, open};
use crate::debug_file::has_build_id;

const PROGRAM: &str = "debuginfod-find";
/// It has a limit of its own, after which it gives up on a server that sends nothing.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// A path, or a sentence.
const OUTPUT_BYTES_MAX: u64 = 8 << 10;

/// What a server has of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The program or library itself.
    Executable,
    /// Its names.
    DebugFile,
}

/// Asks for files.
#[derive(Debug, Default)]
pub struct Debuginfod {
    /// Why nothing is asked for any more.
    failure: Mutex<Option<String>>,
}

impl Debuginfod {
    /// The part of the program or library that has this build id; `None` if no server has it.
    pub fn find(&self, part: Part, build_id: &[u8]) -> Option<Cache> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return None;
        }
        match ask(part, build_id) {
            Ok(path) => {
                let cache = Cache::new(open(&path?).ok()?, u64::MAX);
                has_build_id(&cache, build_id).then_some(cache)
            }
            Err(sentence) => {
                *failure = Some(sentence);
                None
            }
        }
    }

    /// Why nothing is asked for any more: a sentence.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Where the file is now; `None` if no server has it.
fn ask(part: Part, build_id: &[u8]) -> Result<Option<PathBuf>, String> {
    if env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
        return Err("DEBUGINFOD_URLS is not set; set it to the address of a debuginfod server".to_owned());
    }
    let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = match part {
        Part::Executable => "executable",
        Part::DebugFile => "debuginfo",
    };
    let mut command = Command::new(PROGRAM);
    // Its complaints are to be understood.
    command.args([part, &digits]).env("LC_ALL", "C").stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{PROGRAM} is not installed (Debian: package debuginfod)"),
        _ => format!("{PROGRAM} cannot be run: {error}"),
    })?;
    let Some((status, mut output, complaint)) = wait(child, PATIENCE) else {
        return Err(format!(
            "{PROGRAM} did not answer within {} seconds",
            PATIENCE.as_secs()
        ));
    };
    if status.success() {
        output.truncate(output.trim_ascii_end().len());
        return Ok(Some(OsString::from_vec(output).into()));
    }
    let complaint = String::from_utf8_lossy(&complaint);
    let complaint = complaint.lines().last().unwrap_or_default();
    match complaint.contains("No such file") {
        true => Ok(None),
        false => Err(format!("{PROGRAM} failed: {complaint}")),
    }
}

/// How a child ended, and the first of what it wrote to stdout and stderr; `None` if it took too long.
fn wait(mut child: Child, patience: Duration) -> Option<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdout, stderr) = (start_of(child.stdout.take()), start_of(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < patience => thread::sleep(BETWEEN_LOOKS),
            Ok(None) | Err(_) => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let text = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
    Some((status, text(stdout), text(stderr)))
}

/// Reads a pipe to its end, and keeps the first of it.
fn start_of(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut start = Vec::new();
        if let Some(mut pipe) = pipe {
            // What cannot be read is not there.
            let _ = pipe.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut start);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        start
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.expect("there is a shell")
    }

    #[test]
    fn a_child_that_takes_too_long_is_ended() {
        assert!(wait(shell("exec sleep 1000"), Duration::from_millis(1)).is_none());
    }

    #[test]
    fn much_output_is_read_to_its_end_and_not_kept() {
        let script = "echo path; head -c 1000000 /dev/zero >&2; exit 3";
        let (status, output, complaint) = wait(shell(script), PATIENCE).expect("it ends");
        assert_eq!((status.code(), &output[..]), (Some(3), &b"path\n"[..]));
        assert_eq!(complaint.len() as u64, OUTPUT_BYTES_MAX);
    }
}
