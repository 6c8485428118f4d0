// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a process runs a 32-bit program; whether a file is one, or a script with a 32-bit interpreter.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use piste_symbols::local::LocalFiles;

/// As much as the kernel reads to find a script's interpreter.
const START_BYTES: u64 = 256;
/// The kernel follows no more interpreters that are scripts themselves.
const DEPTH_MAX: usize = 5;
/// By anybody.
const EXECUTABLE: u32 = 0o111;

/// `None` if there is no such process, or this one may not inspect it.
pub(super) fn runs_compat(tid: i32) -> Option<bool> {
    // The auxiliary vector: pairs of words, each a small type and its value. In eight bytes of a 32-bit program, the value is in the upper half.
    let mut first = [0; 8];
    File::open(format!("/proc/{tid}/auxv"))
        .ok()?
        .read_exact(&mut first)
        .ok()?;
    Some(u64::from_ne_bytes(first) > u64::from(u32::MAX))
}

/// Looks at the file that a process sees at a path, or this process if none is given. `None` if it is not a program or cannot be read.
pub(super) fn is_compat_file(files: &mut LocalFiles, seen_by: Option<i32>, path: &Path) -> Option<bool> {
    look(path, 0, &mut |path| match seen_by {
        Some(pid) => files.open_as_seen_by(pid, path, can_be_executed),
        None => files.open(path, can_be_executed),
    })
}

fn look(path: &Path, depth: usize, open: &mut dyn FnMut(&Path) -> io::Result<File>) -> Option<bool> {
    const CLASS_OFFSET: usize = 4;
    const CLASS_32: u8 = 1;
    let mut start = Vec::new();
    open(path).ok()?.take(START_BYTES).read_to_end(&mut start).ok()?;
    if start.starts_with(b"\x7fELF") {
        return Some(*start.get(CLASS_OFFSET)? == CLASS_32);
    }
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let interpreter = line.split(is_space).find(|word| !word.is_empty())?;
    (depth < DEPTH_MAX)
        .then(|| look(Path::new(OsStr::from_bytes(interpreter)), depth + 1, open))
        .flatten()
}

/// Programs choose the paths, and this process may be root's: it opens nothing but what could be executed. Reading some files takes something
/// out of them, such as `/proc/kmsg`.
fn can_be_executed(file: &Metadata) -> bool {
    file.mode() & EXECUTABLE != 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{CWD, Mode, mkfifoat};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use tempfile::TempDir;

    use super::*;

    const NARROW: &[u8] = b"\x7fELF\x01\x01";

    fn program(folder: &TempDir, name: &str, content: &[u8]) -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// As this process sees it. It sees the same when it looks at itself.
    fn is_compat(path: &Path) -> Option<bool> {
        let mut files = LocalFiles::new();
        let own = std::process::id().cast_signed();
        let [here, seen] = [None, Some(own)].map(|seen_by| is_compat_file(&mut files, seen_by, path));
        assert_eq!(here, seen);
        here
    }

    #[test]
    fn a_process_says_whether_it_runs_a_32_bit_program() {
        assert_eq!(
            runs_compat(std::process::id().cast_signed()),
            Some(cfg!(target_pointer_width = "32"))
        );
        assert_eq!(runs_compat(i32::MAX), None);
    }

    #[test]
    fn programs_and_scripts_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| program(&folder, name, content);
        let narrow = file("narrow", NARROW);
        let script = file("script", format!("#! {} -x\nexit\n", narrow.display()).as_bytes());
        let wide = file("wide", b"\x7fELF\x02\x01");
        let circle = folder.path().join("circle");
        file("circle", format!("#!{}\n", circle.display()).as_bytes());
        let text = file("text", b"hello");
        let found = [narrow, script, wide, circle, text, folder.path().join("none")].map(|path| is_compat(&path));
        assert_eq!(found, [Some(true), Some(true), Some(false), None, None, None]);
    }

    #[test]
    fn terminal_in_the_place_of_a_program_or_its_interpreter_is_not_opened() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(&name, &link).unwrap();
        let script = program(&folder, "script", format!("#!{name}\n").as_bytes());
        for path in [Path::new(&name), &link, &script] {
            assert_eq!(is_compat(path), None);
        }
        // Once somebody opened the other end and closed it, the terminal says that it was hung up.
        let mut ends = [PollFd::new(&terminal, PollFlags::IN)];
        poll(&mut ends, Some(&Timespec::default())).unwrap();
        assert_eq!(ends[0].revents(), PollFlags::empty());
    }

    #[test]
    fn only_what_can_be_executed_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(&folder, "program", NARROW);
        assert_eq!(is_compat(&path), Some(true));
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let pipe = folder.path().join("pipe");
        mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
        assert_eq!([path.as_path(), &pipe, folder.path()].map(is_compat), [None; 3]);
    }
}
