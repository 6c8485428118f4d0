// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that the kernel keeps while no process has them: in the file system of BPF, which lasts until the machine is restarted.
//!
//! ```text
//!   /sys/fs/bpf/NAME/links/0, 1, ...    what attaches the program's parts
//!                    maps/switches, ... its maps
//!                    rings/0, 1, ...    its rings, by CPU
//! ```
//!
//! A folder is made under another name and renamed, so one that has the name is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapHandle};
use piste_reason::reason;
use rustix::fs::{FlockOperation, flock, statfs};
use rustix::mount::{MountFlags, mount};

use crate::program::Program;

const FILE_SYSTEM: &str = "/sys/fs/bpf";
const MAGIC: u64 = 0xcafe_4a11;
/// Behind the name of a folder that is not complete.
const DRAFT: &str = "~draft";

impl Program {
    /// Makes the kernel keep the program under a name, until [`remove`] is called.
    ///
    /// # Errors
    /// The kernel's.
    pub fn keep(&mut self, name: &str) -> io::Result<()> {
        mount_file_system()?;
        let (folder, draft) = (folder(name), folder(&format!("{name}{DRAFT}")));
        remove_folder(&draft)?;
        remove_folder(&folder)?;
        self.pin(&draft)?;
        fs::rename(&draft, &folder)
    }

    /// The program that is kept under a name. `None` if there is none.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn kept(name: &str) -> io::Result<Option<Program>> {
        let folder = folder(name);
        match folder.exists() {
            true => Program::open(&folder).map(Some),
            false => Ok(None),
        }
    }

    fn pin(&mut self, folder: &Path) -> io::Result<()> {
        let [links, maps, rings] = ["links", "maps", "rings"].map(|name| folder.join(name));
        for folder in [&links, &maps, &rings] {
            fs::create_dir_all(folder)?;
        }
        for (index, link) in self.links.iter_mut().enumerate() {
            link.pin(links.join(index.to_string())).map_err(io::Error::other)?;
        }
        for (name, map) in self.maps.by_name() {
            map.pin(maps.join(name)).map_err(io::Error::other)?;
        }
        for (cpu, ring) in self.rings.iter_mut().enumerate() {
            ring.pin(rings.join(cpu.to_string())).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn open(folder: &Path) -> io::Result<Program> {
        let numbered = |kind: &str| {
            let folder = folder.join(kind);
            (0..)
                .map(move |index: usize| folder.join(index.to_string()))
                .take_while(|path| path.exists())
        };
        let map = |path: PathBuf| MapHandle::from_pinned_path(path).map_err(io::Error::other);
        let links = numbered("links").map(|path| Link::open(path).map_err(io::Error::other));
        Ok(Program {
            maps: crate::program::Maps::of(|name| map(folder.join("maps").join(name)))?,
            links: links.collect::<io::Result<_>>()?,
            rings: numbered("rings").map(map).collect::<io::Result<_>>()?,
        })
    }
}

/// Removes the program that is kept under a name. It records no more, and what is in its rings is lost. That there is none is no error.
///
/// # Errors
/// The kernel's.
pub fn remove(name: &str) -> io::Result<()> {
    remove_folder(&folder(&format!("{name}{DRAFT}")))?;
    remove_folder(&folder(name))
}

/// Removes all programs that are kept under names that begin with `prefix`. Returns what could not be removed, as sentences.
pub fn remove_all(prefix: &str) -> Vec<String> {
    let prefix = escaped(prefix);
    let entries = fs::read_dir(FILE_SYSTEM).into_iter().flatten().flatten();
    let meant = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    let removed = meant.map(|entry| remove_folder(&entry.path()));
    removed.filter_map(|removed| Some(removed.err()?.to_string())).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(FILE_SYSTEM).join(escaped(name))
}

/// No name there may have a dot.
fn escaped(name: &str) -> String {
    name.replace('.', "~2e")
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let sentence = format!("cannot remove {}: {}", folder.display(), reason(&error));
            Err(io::Error::new(error.kind(), sentence))
        }
        _ => Ok(()),
    }
}

/// As systemd does, where nobody has.
fn mount_file_system() -> io::Result<()> {
    if is_mounted()? {
        return Ok(());
    }
    // Of two that mount it at the same time, one would hide what the other keeps.
    let place = File::open(FILE_SYSTEM)?;
    flock(&place, FlockOperation::LockExclusive)?;
    if is_mounted()? {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("bpf", FILE_SYSTEM, "bpf", flags, c"mode=0700")?)
}

fn is_mounted() -> io::Result<bool> {
    Ok(statfs(FILE_SYSTEM)?.f_type as u64 & 0xffff_ffff == MAGIC)
}
