// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state page: the file on which programs without a pisted wait (include/piste/abi/protocol.h).

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use piste_reason::reason;
use rustix::fs::OFlags;

/// Says to all programs that a pisted listens now.
///
/// # Errors
/// The file is somebody else's, or cannot be written; programs that run already will not register then.
pub fn announce(path: &Path) -> io::Result<()> {
    let Page { file, replaced } = open(path)?;
    change(&file)?;
    // Who waits on the old one looks for the new one, which is there by now.
    let Some(replaced) = replaced else { return Ok(()) };
    // What still has a name is another file that somebody linked here: nothing is written to it.
    match replaced.metadata()?.nlink() {
        0 => change(&replaced),
        _ => Ok(piste_ring::wake_state_page(&replaced).map(drop)?),
    }
}

/// The page, and the one in whose place it was put.
struct Page {
    file: File,
    replaced: Option<File>,
}

fn change(file: &File) -> io::Result<()> {
    let mut generation = [0; 4];
    // A new file is empty: its generation is 0.
    if file.read_exact_at(&mut generation, 0).is_err() {
        generation = [0; 4];
    }
    let next = u32::from_ne_bytes(generation).wrapping_add(1).max(1);
    file.write_all_at(&next.to_ne_bytes(), 0)?;
    piste_ring::wake_state_page(file)?;
    Ok(())
}

/// Opens the page, or makes it. In /dev/shm anybody could have put anything under its name.
fn open(path: &Path) -> io::Result<Page> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let existing = File::options().read(true).write(true).custom_flags(flags).open(path);
    let uid = rustix::process::geteuid().as_raw();
    let fresh = |file| Page { file, replaced: None };
    let replaced = match existing {
        Ok(file) => {
            let metadata = file.metadata()?;
            let is_ours = metadata.uid() == uid && metadata.mode() & 0o022 == 0;
            if metadata.is_file() && metadata.nlink() == 1 && is_ours {
                return Ok(fresh(file));
            }
            metadata.is_file().then_some(file)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return make(path, flags).map(fresh),
        // A link, a folder, a file of somebody else: see whether it can be removed.
        Err(_) => None,
    };
    fs::remove_file(path).map_err(|error| {
        let what = format!(
            "cannot remove {}, which belongs to another user: {}",
            path.display(),
            reason(&error)
        );
        io::Error::new(error.kind(), what)
    })?;
    let file = make(path, flags)?;
    Ok(Page { file, replaced })
}

fn make(path: &Path, flags: i32) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o644)
        .custom_flags(flags)
        .open(path)?;
    // Whatever the umask is: programs of all users wait for root's pisted.
    file.set_permissions(Permissions::from_mode(0o644))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn generation(path: &Path) -> u32 {
        u32::from_ne_bytes(fs::read(path).unwrap().try_into().unwrap())
    }

    #[test]
    fn each_announcement_changes_the_generation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        announce(&path).unwrap();
        assert_eq!(generation(&path), 1);
        announce(&path).unwrap();
        assert_eq!(generation(&path), 2);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        fs::write(&path, u32::MAX.to_ne_bytes()).unwrap();
        announce(&path).unwrap();
        assert_eq!(generation(&path), 1);
    }

    #[test]
    fn a_link_a_fifo_or_a_file_that_others_can_write_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        announce(&path).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(generation(&path), 1);

        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        announce(&path).unwrap();
        assert_eq!(generation(&path), 1);

        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
        announce(&path).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_short_or_empty_page_counts_from_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        make(&path, 0).unwrap();
        announce(&path).unwrap();
        assert_eq!(generation(&path), 1);
    }
}
