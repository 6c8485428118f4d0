// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders of traces: how they are named, and that they can be written to.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use piste_reason::reason;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::person::{FOLDER_MODE, Person};
use crate::session::Refusal;

/// `20260131-235959`, in local time.
pub fn time_stamp() -> String {
    jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// Makes the folder of a trace as its owner would, or sees that it is empty and that the owner can write to it. What root's pisted makes
/// for somebody else is for nobody but that user.
pub fn make_output(path: &Path, owner: &Person) -> Result<(), Refusal> {
    if !path.is_absolute() {
        return Err(Refusal::InvalidSetting {
            setting: "output",
            value: path.display().to_string(),
            allowed: "an absolute path".into(),
        });
    }
    let failed = |error: io::Error| not_made(path, &error);
    let _as_owner = owner.enter().map_err(failed)?;
    let mode = if owner.uid().is_some() { 0o700 } else { FOLDER_MODE };
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Refusal::OutputExists { path: path.into() });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path)
            .map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Refusal::OutputExists { path: path.into() });
        }
        Err(error) => return Err(failed(error)),
    }
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, path, wanted, AtFlags::EACCESS).map_err(|error| failed(error.into()))
}

/// Why there is no such folder.
pub fn not_made(path: &Path, error: &io::Error) -> Refusal {
    Refusal::OutputFailed {
        path: path.into(),
        reason: reason(error),
    }
}
