// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste` says about a recording. The command itself is asked, so the viewer and the terminal cannot differ; and a question that nobody waits
//! for any more ends with its process.

use std::io;
use std::path::Path;
use std::process::Stdio;

use piste_reason::reason;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Answers of `piste --json` can be long; longer ones are no answers for a page.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const SAID_BYTES_MAX: u64 = 1 << 20;

/// The JSON that `piste --json ARGUMENTS -- TRACE` prints, or why there is none. Dropping it ends the command.
pub(crate) async fn ask(piste: &Path, arguments: &[&str], trace: &Path) -> Result<Vec<u8>, String> {
    let mut command = Command::new(piste);
    command.arg("--json").args(arguments).arg("--").arg(trace);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.kill_on_drop(true);
    let failed = |error: io::Error| format!("cannot run {}: {}", piste.display(), reason(&error));
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let said = tokio::spawn(bounded(stderr, SAID_BYTES_MAX));
    let answer = bounded(stdout, ANSWER_BYTES_MAX + 1).await.map_err(failed)?;
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err("the answer is too long for a page; ask `piste` in a terminal".to_owned());
    }
    if !child.wait().await.map_err(failed)?.success() {
        let said = said.await.ok().and_then(Result::ok).unwrap_or_default();
        return Err(why(&said));
    }
    Ok(answer)
}

/// What a pipe has, up to a limit.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(bytes_max).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// `{"error":{"message":"..."}}`, in the last line that says so.
fn why(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let message = |line: &str| {
        let said: Value = serde_json::from_str(line).ok()?;
        Some(said["error"]["message"].as_str()?.to_owned())
    };
    let found = text.lines().rev().find_map(message);
    found.unwrap_or_else(|| "piste ended without an answer".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_error_that_was_printed() {
        let said = b"{\"note\":\"n\"}\n{\"error\":{\"exit_status\":1,\"message\":\"no trace\"}}\n";
        assert_eq!(why(said), "no trace");
        assert_eq!(why(b"killed"), "piste ended without an answer");
    }
}
