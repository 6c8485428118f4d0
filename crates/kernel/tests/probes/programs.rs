// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that are probed, compiled when a test needs them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `programs/SOURCE` to `folder/NAME` and returns its path.
pub(crate) fn compile(folder: &Path, source: &str, name: &str, options: &[&str]) -> PathBuf {
    let compiler = if source.ends_with(".cpp") { "c++" } else { "cc" };
    let program = folder.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/probes/programs");
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(sources.join(source))
        .args(options);
    run(&mut command);
    program
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
