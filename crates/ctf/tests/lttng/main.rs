// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of LTTng-UST, recorded here, with every kind of field: read as babeltrace2 reads them.
//!
//! Needs LTTng (Debian: lttng-tools, liblttng-ust-dev), babeltrace2 and a C compiler; skipped without.

#[path = "../reading/mod.rs"]
mod reading;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

#[test]
fn lttng_ust_is_read_as_babeltrace2_does() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path();
    if let Some(what) = missing() {
        eprintln!("skipped: no {what} here");
        return;
    }
    record(folder);
    for (name, expected) in [
        (
            "all",
            &["kinds:integers: ", "kinds:nothing: ", "lttng_ust_tracef:event: "][..],
        ),
        ("few", &[":program:(", "kinds:texts: "]),
        ("lossy", &["kinds:many1: ", "WARNING: Tracer discarded "]),
    ] {
        let trace = folder_with_metadata(&folder.join(name)).expect("a trace was recorded");
        let (ours, theirs) = (reading::read(&trace), reading::babeltrace2(&trace));
        for part in expected {
            assert!(theirs.contains(part), "{name}: no `{part}` was recorded");
        }
        let differ = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differ, None, "{name}");
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{name}");
    }
}

fn missing() -> Option<&'static str> {
    let header = ["-E", "-include", "lttng/tracepoint.h", "-x", "c", "/dev/null"];
    let has = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !reading::has_babeltrace2() {
        Some("babeltrace2")
    } else if !has(Command::new("lttng").arg("--version")) {
        Some("lttng (Debian: lttng-tools)")
    } else if !has(compiler().args(header)) {
        Some("lttng/tracepoint.h, or no C compiler (Debian: liblttng-ust-dev)")
    } else if !may_be_alone() {
        Some("private /run for root's session daemon (unshare --mount)")
    } else {
        None
    }
}

/// Only root's session daemon has fixed places.
fn may_be_alone() -> bool {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n");
    let script = "mount -t tmpfs tmpfs /run";
    let mut alone = Command::new("unshare");
    alone.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        script,
    ]);
    !root || alone.output().is_ok_and(|output| output.status.success())
}

fn compiler() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn record(folder: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lttng");
    let program = folder.join("program");
    let mut compile = compiler();
    compile
        .arg("-I")
        .arg(&sources)
        .arg(sources.join("program.c"))
        .arg("-o")
        .arg(&program);
    run(compile.args(["-llttng-ust", "-lpthread", "-ldl"]));
    run(Command::new("sh").arg(sources.join("record")).args([&program, folder]));
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn folder_with_metadata(folder: &Path) -> Option<PathBuf> {
    if folder.join("metadata").exists() {
        return Some(folder.to_owned());
    }
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.find_map(|path| folder_with_metadata(&path))
}
