// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste` says about a recording. The command itself is asked, so the viewer and the terminal cannot differ; and a question that nobody waits
//! for any more ends with its process.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;

use piste_reason::reason;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::questions::{Question, Way};

/// Answers of `piste --json` can be long; longer ones are no answers for a page.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const SAID_BYTES_MAX: u64 = 1 << 20;

/// The JSON that `piste --json ARGUMENTS -- TRACE` prints, or why there is none. Dropping it ends the command.
pub(crate) async fn ask(
    piste: &Path,
    arguments: &[&str],
    trace: &Path,
    question: &Question,
) -> Result<Vec<u8>, String> {
    ask_about(piste, arguments, &[trace.as_os_str()], question).await
}

/// The same for a command with other operands than one trace.
pub(crate) async fn ask_about(
    piste: &Path,
    arguments: &[&str],
    operands: &[&OsStr],
    question: &Question,
) -> Result<Vec<u8>, String> {
    let arguments = [&["--json"], arguments].concat();
    let mut tool = Tool::run(piste, &arguments, operands, String::new(), question)?;
    let mut answer = Vec::new();
    let mut limited = (&mut tool.stdout).take(ANSWER_BYTES_MAX + 1);
    let read = limited.read_to_end(&mut answer).await;
    read.map_err(|error| unread(&error))?;
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err("the answer is too long for the viewer; run the command `piste` in a terminal".to_owned());
    }
    tool.finish().await?;
    Ok(answer)
}

/// `piste --json ARGUMENTS -- TRACE`, whose output is read as it comes. Dropping it ends the command.
pub(crate) struct Tool {
    child: Child,
    stdout: BufReader<ChildStdout>,
    said: JoinHandle<io::Result<Vec<u8>>>,
}

impl Tool {
    /// Starts it, with `input` as its standard input.
    pub(crate) fn start(
        piste: &Path,
        arguments: &[&str],
        trace: &Path,
        input: String,
        question: &Question,
    ) -> Result<Tool, String> {
        let arguments = [&["--json"], arguments].concat();
        Tool::start_as_is(piste, &arguments, trace, input, question)
    }

    /// The same without `--json`, for output that is no JSON.
    pub(crate) fn start_as_is(
        piste: &Path,
        arguments: &[&str],
        trace: &Path,
        input: String,
        question: &Question,
    ) -> Result<Tool, String> {
        Tool::run(piste, arguments, &[trace.as_os_str()], input, question)
    }

    fn run(
        piste: &Path,
        arguments: &[&str],
        operands: &[&OsStr],
        input: String,
        question: &Question,
    ) -> Result<Tool, String> {
        let mut command = Command::new(piste);
        command.args(arguments).arg("--").args(operands);
        command.env("PISTE_PROGRESS", "json");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.kill_on_drop(true);
        let failed = |why: &str| format!("cannot run {}: {why}", piste.display());
        let mut child = command.spawn().map_err(|error| failed(&reason(&error)))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(mut stdin), Some(stdout)) = pipes else {
            return Err(failed("no pipe"));
        };
        // A command that does not read it says why itself.
        tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        let said = tokio::spawn(listen(child.stderr.take(), question.clone()));
        Ok(Tool {
            child,
            stdout: BufReader::new(stdout),
            said,
        })
    }

    /// The next part of its output; empty at the end.
    pub(crate) async fn read(&mut self) -> Result<Vec<u8>, String> {
        let part = self.stdout.fill_buf().await.map_err(|error| unread(&error))?.to_vec();
        self.stdout.consume(part.len());
        Ok(part)
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> Result<Option<String>, String> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stdout).take(ANSWER_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut line).await;
        match read.map_err(|error| unread(&error))? {
            0 => Ok(None),
            _ => Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned())),
        }
    }

    /// Waits for its end; returns its remarks.
    pub(crate) async fn finish(mut self) -> Result<Vec<String>, String> {
        let ended = self.child.wait().await.map_err(|error| unread(&error))?;
        let said = self.said.await.ok().and_then(Result::ok).unwrap_or_default();
        match ended.success() {
            true => Ok(notes(&said)),
            false => Err(why(&said)),
        }
    }
}

fn unread(error: &io::Error) -> String {
    format!("cannot read the output of piste: {}", reason(error))
}

/// What a command says, up to a limit, but for how far it is: that is noted.
async fn listen(pipe: Option<impl AsyncRead + Unpin>, question: Question) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let Some(pipe) = pipe else {
        return Ok(said);
    };
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut pipe).take(SAID_BYTES_MAX).read_until(b'\n', &mut line).await? == 0 {
            return Ok(said);
        }
        match serde_json::from_slice(&line) {
            Ok(Told { progress }) => question.note(progress),
            Err(_) if (said.len() + line.len()) as u64 <= SAID_BYTES_MAX => said.append(&mut line),
            Err(_) => {}
        }
    }
}

#[derive(Deserialize)]
struct Told {
    progress: Way,
}

/// `{"error":{"message":"..."}}`, or `piste: ...` without `--json`, in the last line that says so.
fn why(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let message = |line: &str| {
        if let Some(message) = line.strip_prefix("piste: ") {
            return Some(message.to_owned());
        }
        let said: Value = serde_json::from_str(line).ok()?;
        Some(said["error"]["message"].as_str()?.to_owned())
    };
    let found = text.lines().rev().find_map(message);
    found.unwrap_or_else(|| "piste ended without an answer".to_owned())
}

/// `{"note":"..."}` and `{"finding":{"what":"..."}}`, each once.
fn notes(stderr: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    let mut notes: Vec<String> = Vec::new();
    for said in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let note = said["note"].as_str().or_else(|| said["finding"]["what"].as_str());
        if let Some(note) = note.filter(|note| !notes.iter().any(|other| other == note)) {
            notes.push(note.to_owned());
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_error_that_was_printed() {
        let said = b"{\"note\":\"n\"}\n{\"error\":{\"exit_status\":1,\"message\":\"no trace\"}}\n";
        assert_eq!(why(said), "no trace");
        assert_eq!(why(b"piste: no trace\n"), "no trace");
        assert_eq!(why(b"killed"), "piste ended without an answer");
    }

    #[test]
    fn remarks_are_kept_once() {
        let said = b"{\"note\":\"n\"}\n{\"note\":\"n\"}\n{\"finding\":{\"kind\":\"k\",\"what\":\"w\"}}\nnothing\n";
        assert_eq!(notes(said), ["n", "w"]);
    }
}
