// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a file is a 32-bit program, or a script with a 32-bit interpreter.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// As much as the kernel reads to find a script's interpreter.
const START_BYTES: u64 = 256;
/// The kernel follows no more interpreters that are scripts themselves.
const DEPTH_MAX: usize = 5;

/// `None` if the file is not a program, or cannot be read.
pub(super) fn is_compat_file(path: &Path) -> Option<bool> {
    look(path, 0)
}

fn look(path: &Path, depth: usize) -> Option<bool> {
    const CLASS_OFFSET: usize = 4;
    const CLASS_32: u8 = 1;
    let mut start = Vec::new();
    open(path)?.take(START_BYTES).read_to_end(&mut start).ok()?;
    if start.starts_with(b"\x7fELF") {
        return Some(*start.get(CLASS_OFFSET)? == CLASS_32);
    }
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let interpreter = line.split(is_space).find(|word| !word.is_empty())?;
    (depth < DEPTH_MAX)
        .then(|| look(Path::new(OsStr::from_bytes(interpreter)), depth + 1))
        .flatten()
}

/// The path may belong to something else by now: opening a pipe must not block.
fn open(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options.open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_scripts_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let narrow = file("narrow", b"\x7fELF\x01\x01");
        let script = file("script", format!("#! {} -x\nexit\n", narrow.display()).as_bytes());
        let wide = file("wide", b"\x7fELF\x02\x01");
        let circle = folder.path().join("circle");
        file("circle", format!("#!{}\n", circle.display()).as_bytes());
        let text = file("text", b"hello");
        let found = [narrow, script, wide, circle, text, folder.path().join("none")].map(|path| is_compat_file(&path));
        assert_eq!(found, [Some(true), Some(true), Some(false), None, None, None]);
    }
}
