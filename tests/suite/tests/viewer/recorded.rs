// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording of the kernel while PROGRAM runs. It is made once; each test has a copy of its own, beside which the viewer writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use piste_support::{Workplace, kernel};

use super::{PROGRAM, has_viewer};

/// The path of each file in its folder, and what it holds.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// A place with the recording. `None`: the kernel cannot be recorded here, or there is no viewer.
pub(crate) fn recorded() -> Option<(Workplace, PathBuf)> {
    static FILES: OnceLock<Files> = OnceLock::new();
    if !has_viewer() {
        return None;
    }
    let place = kernel::shared_workplace()?;
    let trace = place.path("recorded");
    for (path, bytes) in FILES.get_or_init(record) {
        let path = trace.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made there");
        fs::write(path, bytes).expect("it can be written");
    }
    Some((place, trace))
}

fn record() -> Files {
    let place = kernel::workplace().expect("the kernel can be recorded");
    let recording = place.record_with_kernel(&["--no-user"], "python3", &["-c", PROGRAM]);
    recording.finished.expect_success();
    let recorded = recording.trace();
    let mut files = Files::new();
    read(recorded.path(), Path::new(""), &mut files);
    files
}

fn read(root: &Path, folder: &Path, files: &mut Files) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("it can be listed");
        let path = folder.join(entry.file_name());
        if entry.file_type().expect("it is known").is_dir() {
            read(root, &path, files);
        } else {
            files.push((path, fs::read(entry.path()).expect("it can be read")));
        }
    }
}
