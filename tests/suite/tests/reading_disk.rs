// SPDX-License-Identifier: MIT OR Apache-2.0
//! What those who read traces leave on the disk, whenever they or the system end: the kept index, and what they write.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::build_tree::binary;
use piste_support::{Workplace, process};

/// `piste` with some arguments, under strace with some options.
fn traced(place: &Workplace, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = place.command("strace");
    command.args(options).arg("--").arg(binary("piste")).args(arguments);
    command
}

/// A trace of so many packets that its index is kept.
fn write_trace(folder: &Path) {
    let metadata = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n\
        stream { packet.context := struct { integer { size = 32; } content_size; integer { size = 32; } packet_size; }; };\n\
        event { name = e; fields := struct { integer { size = 32; } n; }; };\n";
    fs::create_dir(folder).expect("a folder is made");
    fs::write(folder.join("metadata"), metadata).expect("metadata is written");
    let packet = |number: u32| [96, 96, number].map(u32::to_le_bytes).concat();
    let packets: Vec<u8> = (0..2000).flat_map(packet).collect();
    fs::write(folder.join("stream"), packets).expect("a stream is written");
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("it can be listed");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.collect()
}

#[test]
fn a_reader_that_is_killed_leaves_no_half_index_behind() {
    let place = Workplace::new();
    let folder = place.path("trace");
    write_trace(&folder);
    let expected: BTreeSet<String> = ["metadata", "stream", ".piste-index"].map(str::to_owned).into();
    let index = folder.join(".piste-index");
    // At its first, second, ... change of anything on the disk.
    let mut killed = 0;
    loop {
        let changes = "write,unlink,unlinkat,rename,renameat,renameat2,link,linkat";
        let inject = format!("inject={changes}:signal=KILL:when={}", killed + 1);
        let options = ["-f", "-o", "/dev/null", "-e", &inject];
        let finished = process::run(&mut traced(&place, &options, &["stats", "trace"]));
        let found = names(&folder);
        assert!(found.is_subset(&expected), "{found:?}");
        if finished.success() {
            break;
        }
        assert_eq!(finished.status, 128 + 9, "{finished}");
        killed += 1;
        assert_eq!(place.piste_json(&["stats", "trace"])["events"], 2000);
        let whole = fs::read(&index).expect("it is kept");
        assert!(whole.starts_with(b"PISTEIX"), "{} bytes", whole.len());
        // It is to be written again.
        fs::write(&index, &whole[..whole.len() / 2]).expect("it is written");
    }
    assert!(killed >= 2, "killed {killed} times");
}

/// The path of a call's descriptor, which strace shows as `3</path>`.
fn descriptor(call: &str) -> Option<PathBuf> {
    let (_, rest) = call.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path.into())
}

/// Asserts that all of what has a new name was on the disk before, and its name afterwards.
fn expect_durable(place: &Workplace, output: &str, arguments: &[&str]) {
    let log = place.path(&format!("{output}.strace"));
    let calls = "trace=write,writev,pwrite64,fsync,fdatasync,rename,renameat,renameat2";
    let options = ["-f", "-y", "-s", "0", "-e", calls, "-o", log.to_str().expect("UTF-8")];
    process::run(&mut traced(place, &options, arguments)).expect_success();
    let target = place.path(output).canonicalize().expect("it was written");
    let log = fs::read_to_string(&log).expect("strace wrote it");
    // Without the pid before each.
    let mut calls = log
        .lines()
        .map(|line| line.split_once(' ').map_or(line, |(_, call)| call.trim_start()));
    let mut synced = BTreeSet::new();
    let renamed = calls.by_ref().find(|call| {
        match descriptor(call) {
            Some(path) if call.contains("write") => _ = synced.remove(&path),
            Some(path) => _ = synced.insert(path),
            None => {}
        }
        call.starts_with("rename")
    });
    let before = renamed
        .and_then(|call| call.split('"').nth(1))
        .unwrap_or_else(|| panic!("{output} got no name: {log}"));
    // As the system names it.
    let before = target.with_file_name(Path::new(before).file_name().expect("a name"));
    for file in all_in(&target) {
        let way = file.strip_prefix(&target).expect("it is below");
        let file = if way.as_os_str().is_empty() {
            before.clone()
        } else {
            before.join(way)
        };
        assert!(synced.contains(&file), "{} was not on the disk: {log}", file.display());
    }
    let is_named = calls.any(|call| call.contains("sync(") && descriptor(call).as_deref() == target.parent());
    assert!(is_named, "the name of {output} was not on the disk: {log}");
}

/// A file, or a folder and everything in it.
fn all_in(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("it can be listed");
        all.extend(entries.flat_map(|entry| all_in(&entry.expect("an entry").path())));
    }
    all
}

#[test]
fn what_gets_its_name_is_on_the_disk() {
    let place = Workplace::new();
    let options = ["-u", "count:*", "--block", "forever"];
    let recording = place.record(&options, place.program("count.c"), &["2", "1000"]);
    recording.expect_whole();
    let trace = recording.trace().path().to_owned();
    let trace = trace.to_str().expect("UTF-8");
    expect_durable(&place, "whole", &["trim", trace, "-o", "whole"]);
    expect_durable(
        &place,
        "part",
        &["trim", trace, "--filter", "number < 100", "-o", "part"],
    );
    for format in ["perfetto", "chrome", "json", "ctf2", "parquet"] {
        expect_durable(&place, format, &["export", trace, "--format", format, "-o", format]);
    }
    let rows = ["query", "--format", "csv", "-o", "rows", trace, "SELECT * FROM events"];
    expect_durable(&place, "rows", &rows);
}
