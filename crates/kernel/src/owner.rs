// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose instances there are: what a dead daemon left is removed, what belongs to a living one or to others is never touched.
//!
//! An owner is a random id that a run folder keeps. It lives while any process (pisted, its kernel consumer) holds a shared lock on
//! `/run/piste-owners/ID`, which the kernel lets go of however the process ends. Whoever gets the exclusive lock knows that the owner
//! is dead, and keeps it dead meanwhile. The first one to find it dead writes the time to the file, because somebody may be about to start pisted
//! again, which then continues with the rings; claiming the owner removes the time. An instance whose owner has no such file is left alone: its
//! owner may live in a container with a `/run` of its own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::instance::Instance;
use crate::instance_name::{InstanceName, is_owner_id};
use crate::tracefs::{Tracefs, named};

const LOCKS: &str = "/run/piste-owners";

/// A living owner: alive as long as this value.
#[derive(Debug)]
pub struct Owner {
    id: String,
    _lock: File,
}

impl Owner {
    /// The owner of a run folder, made if it has none. Several processes may claim the same.
    ///
    /// # Errors
    /// The run folder or `/run/piste-owners` cannot be written.
    pub fn claim(run_folder: &Path) -> io::Result<Self> {
        Self::claim_with(run_folder, Path::new(LOCKS))
    }

    fn claim_with(run_folder: &Path, locks: &Path) -> io::Result<Self> {
        let id = id_of(run_folder)?;
        make_folder(locks)?;
        let path = locks.join(&id);
        loop {
            let lock = open(&path, true)?;
            flock(&lock, FlockOperation::LockShared).map_err(|error| named(&error.into(), path.display()))?;
            if lock.metadata()?.nlink() > 0 {
                lock.set_len(0)?;
                return Ok(Self { id, _lock: lock });
            }
            // Taken for dead and removed between our open and our lock.
        }
    }

    /// Sixteen hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// This owner's instances that are there: session and channel of each.
    ///
    /// # Errors
    /// The kernel's.
    pub fn instances(&self, tracefs: &Tracefs) -> io::Result<Vec<(u64, String)>> {
        let names = instances_of(tracefs, &self.id)?;
        let parsed = names.iter().filter_map(|name| InstanceName::parse(name));
        Ok(parsed.map(|named| (named.session, named.channel.to_owned())).collect())
    }
}

/// An owner that nobody holds, and that nobody can claim as long as this value lives. What belongs to it may be removed.
#[derive(Debug)]
pub struct DeadOwner {
    id: String,
    lock: PathBuf,
    _lock: File,
}

impl DeadOwner {
    /// Sixteen hexadecimal digits, as in the names of what it left.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the names of its instances begin with.
    pub fn prefix(&self) -> String {
        InstanceName::prefix(&self.id)
    }

    /// Names of the instances that it left.
    ///
    /// # Errors
    /// The kernel's.
    pub fn instances(&self, tracefs: &Tracefs) -> io::Result<Vec<String>> {
        instances_of(tracefs, &self.id)
    }

    /// Removes the instances that it left. What else it left (probes) can go after this, since instances use it. Returns what could not be
    /// removed, as sentences.
    pub fn remove_instances(&self, tracefs: &Tracefs) -> Vec<String> {
        let names = match self.instances(tracefs) {
            Ok(names) => names,
            Err(error) => return vec![error.to_string()],
        };
        let removed = names.iter().map(|name| Instance::at(tracefs, name).remove());
        removed
            .filter_map(|result| result.err().map(|error| error.to_string()))
            .collect()
    }

    /// Nothing of it is left: its lock goes too. An owner that is not forgotten is found again the next time.
    ///
    /// # Errors
    /// The lock cannot be removed.
    pub fn forget(self) -> io::Result<()> {
        fs::remove_file(&self.lock).map_err(|error| named(&error, format!("cannot remove {}", self.lock.display())))
    }
}

/// Owners that died and were not forgotten.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Those that have been dead for long enough.
    pub dead: Vec<DeadOwner>,
    /// How long until the next one has.
    pub next: Option<Duration>,
}

/// Finds owners that have been known to be dead for at least `dead_for`.
///
/// # Errors
/// `/run/piste-owners` cannot be read or written.
pub fn leftovers(dead_for: Duration) -> io::Result<Leftovers> {
    leftovers_in(Path::new(LOCKS), dead_for)
}

fn leftovers_in(locks: &Path, dead_for: Duration) -> io::Result<Leftovers> {
    let entries = match fs::read_dir(locks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Leftovers::default()),
        Err(error) => return Err(named(&error, locks.display())),
    };
    let mut leftovers = Leftovers::default();
    for entry in entries {
        let Ok(id) = entry?.file_name().into_string() else {
            continue;
        };
        if !is_owner_id(&id) {
            continue;
        }
        let path = locks.join(&id);
        let Some(lock) = lock_if_dead(&path)? else { continue };
        let already = known_to_be_dead_for(&lock).map_err(|error| named(&error, path.display()))?;
        match dead_for.checked_sub(already) {
            Some(left) if !left.is_zero() => {
                leftovers.next = Some(leftovers.next.map_or(left, |next| next.min(left)));
            }
            _ => leftovers.dead.push(DeadOwner {
                id,
                lock: path,
                _lock: lock,
            }),
        }
    }
    Ok(leftovers)
}

fn lock_if_dead(path: &Path) -> io::Result<Option<File>> {
    let lock = match open(path, false) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        result => result.map_err(|error| named(&error.into(), path.display()))?,
    }
    // Another that cleans up may have forgotten it in between.
    Ok((lock.metadata()?.nlink() > 0).then_some(lock))
}

/// How long an owner has been known to be dead. Writes the time to its file if nobody has yet.
fn known_to_be_dead_for(lock: &File) -> io::Result<Duration> {
    let mut noted = [0; 8];
    let now = now();
    let is_noted = lock.read_exact_at(&mut noted, 0).is_ok();
    let since = Duration::from_nanos(u64::from_ne_bytes(noted));
    if is_noted && since <= now {
        return Ok(now - since);
    }
    lock.write_all_at(&(now.as_nanos() as u64).to_ne_bytes(), 0)?;
    Ok(Duration::ZERO)
}

/// The time since boot: /run is as old.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

fn instances_of(tracefs: &Tracefs, owner: &str) -> io::Result<Vec<String>> {
    let folder = tracefs.path("instances");
    let entries = fs::read_dir(&folder).map_err(|error| named(&error, folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| InstanceName::parse(name).is_some_and(|named| named.owner == owner))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// What `kernel/owner` in the run folder says, written if it says nothing.
fn id_of(run_folder: &Path) -> io::Result<String> {
    let folder = run_folder.join("kernel");
    make_folder(&folder)?;
    let path = folder.join("owner");
    loop {
        match fs::read_to_string(&path) {
            Ok(text) if is_owner_id(text.trim_end()) => return Ok(text.trim_end().to_owned()),
            Ok(text) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "{} contains {text:?}, which is not an id of sixteen hexadecimal digits; remove it",
                        path.display()
                    ),
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(named(&error, path.display())),
        }
        let id = format!("{:016x}", random()?);
        let draft = folder.join(format!("owner.{id}"));
        fs::write(&draft, format!("{id}\n")).map_err(|error| named(&error, draft.display()))?;
        // Of two that make one at the same time, the first wins, and both read its.
        let renamed = renameat_with(CWD, &draft, CWD, &path, RenameFlags::NOREPLACE);
        if let Err(error) = renamed {
            fs::remove_file(&draft)?;
            if error != Errno::EXIST {
                return Err(named(&error.into(), path.display()));
            }
        }
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    assert_eq!(filled, bytes.len(), "the kernel fills up to 256 bytes at once");
    Ok(u64::from_ne_bytes(bytes))
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).mode(0o600);
    options.open(path).map_err(|error| named(&error, path.display()))
}

fn make_folder(path: &Path) -> io::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| named(&error, format!("cannot create {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_folder_keeps_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (run, locks) = (folder.path().join("run"), folder.path().join("locks"));
        let first = Owner::claim_with(&run, &locks).unwrap();
        assert!(is_owner_id(first.id()));
        let second = Owner::claim_with(&run, &locks).unwrap();
        assert_eq!(first.id(), second.id());
        let other = Owner::claim_with(&folder.path().join("other"), &locks).unwrap();
        assert_ne!(first.id(), other.id());
    }

    #[test]
    fn an_owner_is_dead_when_its_last_process_is() {
        let folder = tempfile::tempdir().unwrap();
        let (run, locks) = (folder.path().join("run"), folder.path().join("locks"));
        assert!(leftovers_in(&locks, Duration::ZERO).unwrap().dead.is_empty());
        let first = Owner::claim_with(&run, &locks).unwrap();
        let second = Owner::claim_with(&run, &locks).unwrap();
        let id = first.id().to_owned();
        drop(first);
        assert!(leftovers_in(&locks, Duration::ZERO).unwrap().dead.is_empty());
        drop(second);
        let dead = leftovers_in(&locks, Duration::ZERO).unwrap().dead;
        assert_eq!(dead.iter().map(DeadOwner::id).collect::<Vec<_>>(), [&id]);
        // Who looks at the same time does not get it too.
        assert!(leftovers_in(&locks, Duration::ZERO).unwrap().dead.is_empty());
        drop(dead);
        for dead in leftovers_in(&locks, Duration::ZERO).unwrap().dead {
            dead.forget().unwrap();
        }
        assert!(leftovers_in(&locks, Duration::ZERO).unwrap().dead.is_empty());
        let back = Owner::claim_with(&run, &locks).unwrap();
        assert_eq!(back.id(), id);
        assert!(leftovers_in(&locks, Duration::ZERO).unwrap().dead.is_empty());
    }

    #[test]
    fn one_that_died_lately_is_left_alone() {
        const LONG: Duration = Duration::from_secs(3600);
        let folder = tempfile::tempdir().unwrap();
        let (run, locks) = (folder.path().join("run"), folder.path().join("locks"));
        let die = || drop(Owner::claim_with(&run, &locks).unwrap());
        let look = |dead_for| {
            let Leftovers { dead, next } = leftovers_in(&locks, dead_for).unwrap();
            (dead.len(), next)
        };
        die();
        let (dead, first) = look(LONG);
        assert_eq!((dead, first), (0, Some(LONG)));
        let (dead, next) = look(LONG);
        assert!(dead == 0 && next < first, "{next:?}");
        let (dead, next) = look(Duration::from_nanos(1));
        assert_eq!((dead, next), (1, None));
        // It came back meanwhile.
        die();
        assert_eq!(look(LONG), (0, Some(LONG)));
        // No time of this machine's.
        fs::write(fs::read_dir(&locks).unwrap().next().unwrap().unwrap().path(), [0xff; 8]).unwrap();
        assert_eq!(look(LONG), (0, Some(LONG)));
    }

    #[test]
    fn a_claim_waits_until_the_dead_owner_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (run, locks) = (folder.path().join("run"), folder.path().join("locks"));
        drop(Owner::claim_with(&run, &locks).unwrap());
        let dead = leftovers_in(&locks, Duration::ZERO).unwrap().dead.remove(0);
        std::thread::scope(|scope| {
            let claim = scope.spawn(|| Owner::claim_with(&run, &locks).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!claim.is_finished());
            dead.forget().unwrap();
            let owner = claim.join().unwrap();
            assert!(locks.join(owner.id()).exists());
        });
    }

    #[test]
    fn only_instances_of_the_owner_are_its() {
        let folder = tempfile::tempdir().unwrap();
        let tracefs = Tracefs::at(folder.path());
        let owner = Owner::claim_with(folder.path(), &folder.path().join("locks")).unwrap();
        let id = owner.id();
        for name in [
            &format!("piste-{id}-3-a-b"),
            &format!("piste-{id}-3"),
            "foo",
            "piste-0000000000000000-1-default",
        ] {
            fs::create_dir_all(tracefs.path("instances").join(name)).unwrap();
        }
        assert_eq!(owner.instances(&tracefs).unwrap(), [(3, "a-b".to_owned())]);
    }
}
