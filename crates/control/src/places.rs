// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where pisted and its clients meet: the run folder, and the names in it. The rule is the one of
//! include/piste/abi/protocol.h, by which traced programs find `app.sock` and the state page.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use piste_reason::reason;

use crate::error::Error;

/// Bytes of the longest path that a unix socket can have.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The run folder of one pisted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    run_folder: PathBuf,
    state_page: PathBuf,
    /// Permissions of the run folder when it is made here.
    mode: u32,
    /// Who must own it.
    owner: u32,
    /// By PISTE_RUNDIR.
    chosen: bool,
}

/// What the rule depends on.
struct Surroundings {
    run_folder_setting: Option<OsString>,
    uid: u32,
    has_user_folder: bool,
}

impl Places {
    /// The places of this user's pisted, or those under `$PISTE_RUNDIR`.
    ///
    /// # Errors
    /// [`Error::RunFolder`] when the folder's path is too long for a socket in it.
    pub fn from_environment() -> Result<Places, Error> {
        let uid = rustix::process::getuid().as_raw();
        Places::find(Surroundings {
            run_folder_setting: env::var_os("PISTE_RUNDIR").filter(|setting| !setting.is_empty()),
            uid,
            has_user_folder: Path::new(&format!("/run/user/{uid}")).is_dir(),
        })
    }

    /// The places of a pisted whose `$PISTE_RUNDIR` is that folder.
    ///
    /// # Errors
    /// [`Error::RunFolder`] when the folder's path is too long for a socket in it.
    pub fn at(run_folder: &Path) -> Result<Places, Error> {
        Places::find(Surroundings {
            run_folder_setting: Some(run_folder.into()),
            uid: rustix::process::getuid().as_raw(),
            has_user_folder: false,
        })
    }

    /// The places of the pisted that commands talk to. They are those under `$PISTE_RUNDIR` if it is set. Otherwise they are root's, if its pisted
    /// runs and this user may control it, as members of the group `tracing` may; and else the user's own.
    ///
    /// # Errors
    /// [`Error::RunFolder`] when the folder's path is too long for a socket in it.
    pub fn for_commands() -> Result<Places, Error> {
        let own = Places::from_environment()?;
        if own.chosen || own.owner == 0 {
            return Ok(own);
        }
        let of_root = Places::find(Surroundings {
            run_folder_setting: None,
            uid: 0,
            has_user_folder: false,
        })?;
        let is_safe = of_root.check_run_folder().is_ok();
        let answers = is_safe && UnixStream::connect(of_root.control_socket()).is_ok();
        Ok(if answers { of_root } else { own })
    }

    fn find(surroundings: Surroundings) -> Result<Places, Error> {
        let Surroundings {
            run_folder_setting,
            uid,
            has_user_folder,
        } = surroundings;
        let shared_state = PathBuf::from(format!("/dev/shm/piste-state-{uid}"));
        let places = match run_folder_setting {
            Some(setting) => {
                let run_folder = std::path::absolute(&setting).map_err(|error| Error::RunFolder {
                    path: setting.into(),
                    reason: reason(&error),
                })?;
                Places {
                    state_page: run_folder.join("state"),
                    run_folder,
                    mode: 0o700,
                    owner: uid,
                    chosen: true,
                }
            }
            // Programs of every user register with root's pisted, so they must reach its app.sock.
            None if uid == 0 => Places {
                run_folder: "/run/piste".into(),
                state_page: shared_state,
                mode: 0o755,
                owner: uid,
                chosen: false,
            },
            None => {
                let run_folder = if has_user_folder {
                    format!("/run/user/{uid}/piste").into()
                } else {
                    format!("/tmp/piste-{uid}").into()
                };
                Places {
                    run_folder,
                    state_page: shared_state,
                    mode: 0o700,
                    owner: uid,
                    chosen: false,
                }
            }
        };
        let longest_bytes = places.kernel_consumer_socket().as_os_str().len();
        if longest_bytes > SOCKET_PATH_BYTES_MAX {
            return Err(Error::RunFolder {
                reason: format!(
                    "its path is {} bytes too long for a socket; set PISTE_RUNDIR to a shorter path",
                    longest_bytes - SOCKET_PATH_BYTES_MAX
                ),
                path: places.run_folder,
            });
        }
        Ok(places)
    }

    /// Makes the run folder if it is missing.
    ///
    /// # Errors
    /// [`Error::RunFolder`] with the reason, also that of [`Places::check_run_folder`].
    pub fn make_run_folder(&self) -> Result<(), Error> {
        match DirBuilder::new().mode(self.mode).create(&self.run_folder) {
            // Whatever the umask is: programs of all users come to root's.
            Ok(()) => fs::set_permissions(&self.run_folder, Permissions::from_mode(self.mode))
                .map_err(|error| self.unusable(reason(&error))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.check_run_folder(),
            Err(error) => Err(self.unusable(reason(&error))),
        }
    }

    /// Refuses a run folder that another user could have prepared: whoever owns it is who answers there.
    ///
    /// # Errors
    /// [`Error::RunFolder`] with the reason.
    pub fn check_run_folder(&self) -> Result<(), Error> {
        // A folder that somebody chose with PISTE_RUNDIR may be a link, or another user's on purpose.
        if self.chosen {
            return Ok(());
        }
        let metadata = match fs::symlink_metadata(&self.run_folder) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.unusable(reason(&error))),
        };
        if !metadata.is_dir() {
            return Err(self.unusable("it is not a folder; remove it".into()));
        }
        if metadata.uid() != self.owner || metadata.mode() & 0o022 != 0 {
            return Err(self.unusable(format!(
                "it belongs to user {} and has mode {:o}, but must be yours and writable only by you; remove it, or set PISTE_RUNDIR to another folder",
                metadata.uid(),
                metadata.mode() & 0o7777
            )));
        }
        Ok(())
    }

    fn unusable(&self, reason: String) -> Error {
        Error::RunFolder {
            path: self.run_folder.clone(),
            reason,
        }
    }

    /// What PISTE_RUNDIR has to be for programs of other folders to find the same places; absent when it is not set here.
    pub fn setting(&self) -> Option<&Path> {
        self.chosen.then_some(self.run_folder.as_path())
    }
    /// The folder itself.
    pub fn run_folder(&self) -> &Path {
        &self.run_folder
    }
    /// Where traced programs register.
    pub fn app_socket(&self) -> PathBuf {
        self.run_folder.join("app.sock")
    }
    /// The interface of this crate.
    pub fn control_socket(&self) -> PathBuf {
        self.run_folder.join("control.sock")
    }
    /// Between pisted and the consumer of the programs' rings.
    pub fn consumer_socket(&self) -> PathBuf {
        self.run_folder.join("consumer.sock")
    }
    /// Between pisted and the kernel consumer.
    pub fn kernel_consumer_socket(&self) -> PathBuf {
        self.run_folder.join("kernel-consumer.sock")
    }
    /// What a new pisted learns the state from.
    pub fn journal(&self) -> PathBuf {
        self.run_folder.join("journal")
    }
    /// Locked while a pisted runs.
    pub fn lock(&self) -> PathBuf {
        self.run_folder.join("pisted.pid")
    }
    /// What a pisted in the background says.
    pub fn log(&self) -> PathBuf {
        self.run_folder.join("pisted.log")
    }
    /// The page that traced programs wait on while no pisted runs.
    pub fn state_page(&self) -> &Path {
        &self.state_page
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn places(setting: Option<&str>, uid: u32, has_user_folder: bool) -> Result<Places, Error> {
        Places::find(Surroundings {
            run_folder_setting: setting.map(OsString::from),
            uid,
            has_user_folder,
        })
    }

    fn check(setting: Option<&str>, uid: u32, has_user_folder: bool, control: &str, state: &str) {
        let places = places(setting, uid, has_user_folder).unwrap();
        assert_eq!(places.control_socket(), Path::new(control));
        assert_eq!(places.state_page(), Path::new(state));
    }

    #[test]
    fn the_run_folder_depends_on_setting_and_user() {
        check(Some("/tmp/x"), 0, true, "/tmp/x/control.sock", "/tmp/x/state");
        check(None, 0, true, "/run/piste/control.sock", "/dev/shm/piste-state-0");
        check(
            None,
            1000,
            true,
            "/run/user/1000/piste/control.sock",
            "/dev/shm/piste-state-1000",
        );
        check(
            None,
            1000,
            false,
            "/tmp/piste-1000/control.sock",
            "/dev/shm/piste-state-1000",
        );
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_before_it_is_used() {
        let long = format!("/tmp/{}", "x".repeat(100));
        let error = places(Some(&long), 0, true).unwrap_err().to_string();
        assert!(error.contains("19 bytes too long"), "{error}");
    }

    #[test]
    fn a_run_folder_has_its_permissions_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            run_folder: folder.path().join("run"),
            state_page: PathBuf::new(),
            // More than any umask in use leaves.
            mode: 0o777,
            owner: rustix::process::geteuid().as_raw(),
            chosen: true,
        };
        places.make_run_folder().unwrap();
        let mode = fs::metadata(places.run_folder()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o777);
        // What somebody made before stays as it is.
        fs::set_permissions(places.run_folder(), Permissions::from_mode(0o700)).unwrap();
        places.make_run_folder().unwrap();
        assert_eq!(fs::metadata(places.run_folder()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_run_folder_that_others_can_write_to_or_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| Places {
            run_folder: folder.path().join(name),
            state_page: PathBuf::new(),
            mode: 0o700,
            owner: rustix::process::geteuid().as_raw(),
            chosen: false,
        };
        make("new").make_run_folder().unwrap();
        make("new").make_run_folder().unwrap();

        let open = make("open");
        open.make_run_folder().unwrap();
        fs::set_permissions(open.run_folder(), Permissions::from_mode(0o777)).unwrap();
        let error = open.make_run_folder().unwrap_err().to_string();
        assert!(error.contains("has mode 777"), "{error}");

        let link = make("link");
        symlink(folder.path().join("new"), link.run_folder()).unwrap();
        let error = link.make_run_folder().unwrap_err().to_string();
        assert!(error.contains("not a folder"), "{error}");
    }
}
