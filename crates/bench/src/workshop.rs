// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where everything is made that a run needs: a temporary folder, and the programs that are compiled into it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, io};

use piste_kernel::answer::answers;
use piste_kernel::tracefs::Tracefs;
use piste_reason::reason;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::claim::{self, Claim};
use crate::error::{Absence, Error};
use crate::peers::PAYLOAD_BYTES;
use crate::processes::{Patience, find, output_of};

/// The measured programs, and what they have in common. bench/programs.py compiles some of them, too.
const SOURCES: [(&str, &str); 29] = [
    ("rounds.h", include_str!("measured/rounds.h")),
    ("rounds.c", include_str!("measured/rounds.c")),
    ("counters.h", include_str!("measured/counters.h")),
    ("counters.c", include_str!("measured/counters.c")),
    ("interrupts.h", include_str!("measured/interrupts.h")),
    ("floor.c", include_str!("measured/floor.c")),
    ("prototype.c", include_str!("measured/prototype.c")),
    ("piste.c", include_str!("measured/piste.c")),
    ("steps.h", include_str!("measured/steps.h")),
    ("steps.c", include_str!("measured/steps.c")),
    ("step.h", include_str!("measured/step.h")),
    ("step-callback.c", include_str!("measured/step-callback.c")),
    ("step-lookup.c", include_str!("measured/step-lookup.c")),
    ("step-clock.c", include_str!("measured/step-clock.c")),
    ("step-reserve.c", include_str!("measured/step-reserve.c")),
    ("step-write.c", include_str!("measured/step-write.c")),
    ("lttng.c", include_str!("measured/lttng.c")),
    ("lttng-event.h", include_str!("measured/lttng-event.h")),
    ("lttng-formatted.c", include_str!("measured/lttng-formatted.c")),
    ("marker.c", include_str!("measured/marker.c")),
    ("user_events.c", include_str!("measured/user_events.c")),
    ("allocations.c", include_str!("measured/allocations.c")),
    ("probed.c", include_str!("measured/probed.c")),
    ("static_probe.c", include_str!("measured/static_probe.c")),
    ("calls.c", include_str!("measured/calls.c")),
    ("turn.h", include_str!("measured/turn.h")),
    ("turn-piste.c", include_str!("measured/turn-piste.c")),
    ("turn-lttng.c", include_str!("measured/turn-lttng.c")),
    ("turn-probed.c", include_str!("measured/turn-probed.c")),
];

/// What the names of folders begin with; an id follows.
const PREFIX: &str = "piste-bench-";
/// A file in each of them, which tells them from what others call like that.
const MARK: &str = ".piste-bench-run";
/// Reading a large trace takes no longer.
pub(crate) const READING_LIMIT: Duration = Duration::from_secs(600);
/// What all measured programs have. It takes longest to compile.
const ROUNDS: [&str; 2] = ["rounds.c", "counters.c"];
/// A loop of a few instructions takes twice as long where it happens to lie across two cache lines.
const FLAGS: [&str; 4] = ["-std=gnu11", "-O2", "-falign-loops=64", "-g"];

/// The folder, the compiler, and the installed Piste.
pub(crate) struct Workshop {
    folder: TempDir,
    _claim: Claim,
    compiler: OsString,
    /// The program `piste`.
    pub(crate) piste: PathBuf,
    pub(crate) patience: Patience,
    /// Sizes of payloads, beside the usual one.
    pub(crate) payloads: Vec<u32>,
}

/// What the programs need that use the C library alone.
pub(crate) const C_LIBRARY: &str = "gcc libc6-dev";

/// Programs by the bytes of payload that their events have.
pub(crate) type Sized = BTreeMap<u32, PathBuf>;

impl Workshop {
    /// A new folder, with the sources.
    pub(crate) fn new(piste: &Path, payloads: &[u32], patience: Patience) -> Result<Workshop, Error> {
        let make = || -> io::Result<(TempDir, Claim)> {
            let mut made = None;
            let (path, claim) = claim::make(|| {
                let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
                Ok(made.insert(folder).path().to_owned())
            })?;
            fs::write(path.join(MARK), "")?;
            fs::create_dir(path.join("sources"))?;
            for (name, text) in SOURCES {
                fs::write(path.join("sources").join(name), text)?;
            }
            Ok((made.expect("it was claimed"), claim))
        };
        let (folder, claim) = make().map_err(|error| {
            let place = env::temp_dir();
            Error::new(format!(
                "cannot write to {}: {}; set TMPDIR to another folder",
                place.display(),
                reason(&error)
            ))
        })?;
        Ok(Workshop {
            folder,
            _claim: claim,
            compiler: env::var_os("CC").filter(|name| !name.is_empty()).unwrap_or("cc".into()),
            piste: piste.to_owned(),
            patience,
            payloads: payloads.to_vec(),
        })
    }

    /// Removes the folders that killed runs left behind.
    pub(crate) fn remove_leftovers() {
        let own = geteuid().as_raw();
        for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
            let is_of_a_run = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let is_ours = entry
                .metadata()
                .is_ok_and(|folder| folder.is_dir() && folder.uid() == own);
            if is_of_a_run
                && is_ours
                && entry.path().join(MARK).is_file()
                && let Ok(Some(_claim)) = Claim::of(&entry.path())
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// A new folder within this one, which is removed with the value.
    pub(crate) fn folder(&self, name: &str) -> Result<TempDir, Error> {
        let prefix = format!("{name}-");
        let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(self.folder.path());
        made.map_err(|error| {
            Error::new(format!(
                "cannot create a folder in {}: {}",
                self.folder.path().display(),
                reason(&error)
            ))
        })
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of an installation that a file of Piste's is in, such as `include` or `lib`, if it is beside the one of the program.
    pub(crate) fn installed(&self, folder: &str) -> Option<PathBuf> {
        let path = self.piste.parent()?.parent()?.join(folder);
        path.is_dir().then_some(path)
    }

    /// The compiler.
    pub(crate) fn compiler(&self) -> Result<PathBuf, Absence> {
        let named = self.compiler.to_string_lossy();
        let path = match named.contains('/') {
            true => Some(PathBuf::from(&self.compiler)).filter(|path| path.is_file()),
            false => find(&named),
        };
        path.ok_or_else(|| {
            Absence::new(
                format!("there is no C compiler ({named}) to compile the measured program"),
                "install one (Debian: apt install gcc libc6-dev)",
            )
        })
    }

    /// Whether the compiler finds a header.
    pub(crate) fn has_header(&self, header: &str, flags: &[String]) -> Result<bool, Absence> {
        let mut command = Command::new(self.compiler()?);
        command
            .args(flags)
            .args(["-E", "-include", header, "-x", "c", "/dev/null"]);
        Ok(output_of(&mut command, &self.patience).is_ok())
    }

    /// Compiles a measured program. Returns its path. `package` is Debian's with the headers and libraries that it needs. A name stands for these
    /// sources and flags: a program that another peer has compiled is there already.
    pub(crate) fn compile(
        &self,
        name: &str,
        sources: &[&str],
        flags: &[String],
        package: &str,
    ) -> Result<PathBuf, Absence> {
        let mut objects = Vec::new();
        for source in ROUNDS {
            let object = self.compile_file(&format!("{source}.o"), &[source], &["-c".to_owned()], C_LIBRARY)?;
            objects.push(object.to_string_lossy().into_owned());
        }
        let flags = [&objects, flags, &["-lpthread".to_owned()]].concat();
        self.compile_file(name, sources, &flags, package)
    }

    /// Compiles a library with an event, which another program loads. Returns its path.
    pub(crate) fn compile_library(
        &self,
        name: &str,
        source: &str,
        flags: &[String],
        package: &str,
    ) -> Result<PathBuf, Absence> {
        let of_library = ["-shared", "-fPIC", "-fvisibility=hidden"].map(str::to_owned);
        self.compile_file(name, &[source], &[&of_library, flags].concat(), package)
    }

    fn compile_file(&self, name: &str, sources: &[&str], flags: &[String], package: &str) -> Result<PathBuf, Absence> {
        let program = self.path(name);
        if program.is_file() {
            return Ok(program);
        }
        let compiler = self.compiler()?;
        let command = |how: &[&str]| {
            let mut command = Command::new(&compiler);
            command.args(FLAGS).args(how).arg("-o").arg(&program);
            command.arg("-I").arg(self.path("sources"));
            for source in sources {
                command.arg(self.path("sources").join(source));
            }
            command.args(flags).env("TMPDIR", self.folder.path());
            command
        };
        let Err(error) = output_of(&mut command(&[]), &self.patience) else {
            return Ok(program);
        };
        let compiles = output_of(&mut command(&["-fsyntax-only"]), &self.patience).is_ok();
        let what = match compiles {
            true => "cannot be linked",
            false => "does not compile",
        };
        Err(Absence::new(
            format!("the measured program {what}: {}", brief(&error)),
            format!("install what it needs (Debian: apt install {package})"),
        ))
    }

    /// The same for each of these sizes, beside the usual one.
    pub(crate) fn compile_sized(
        &self,
        name: &str,
        sources: &[&str],
        flags: &[String],
        package: &str,
        sizes: &[u32],
    ) -> Result<Sized, Absence> {
        let mut programs = Sized::from([(PAYLOAD_BYTES, self.compile(name, sources, flags, package)?)]);
        for size in sizes {
            let flags = [flags, &[format!("-DPAYLOAD_BYTES={size}")]].concat();
            let name = format!("{name}-{size}");
            programs.insert(*size, self.compile(&name, sources, &flags, package)?);
        }
        Ok(programs)
    }

    /// The kernel's tracing.
    pub(crate) fn tracefs(&self) -> Result<Tracefs, Absence> {
        let found = Tracefs::find().and_then(|tracefs| answers(&tracefs).map(|()| tracefs));
        found.map_err(|lack| Absence::new(lack.reason, "run `piste bench` as root, and see `piste doctor`"))
    }
}

/// What a compiler or linker says, without its long command.
fn brief(error: &Error) -> String {
    let said = error.to_string();
    let reason = said.split_once("status 1: ").map(|(_, reason)| reason.to_owned());
    reason.unwrap_or(said)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn workshop() -> Workshop {
        let patience = Patience::new(Arc::new(AtomicBool::new(false)));
        Workshop::new(Path::new("/usr/bin/piste"), &[], patience).expect("a new folder")
    }

    #[test]
    fn a_missing_library_is_told_from_a_program_that_does_not_compile() {
        let workshop = workshop();
        let flag = |flag: &str| [flag.to_owned()];
        assert!(workshop.compile("floor", &["floor.c"], &[], C_LIBRARY).is_ok());
        let link = workshop.compile("unlinked", &["floor.c"], &flag("-lno_such_library"), "libsuch-dev");
        let link = link.expect_err("there is no such library");
        assert!(
            link.reason.starts_with("the measured program cannot be linked: ")
                && link.reason.contains("no_such_library"),
            "{link:?}"
        );
        assert_eq!(
            link.remedy.as_deref(),
            Some("install what it needs (Debian: apt install libsuch-dev)")
        );
        let compile = workshop.compile("wrong", &["floor.c"], &flag("-DPAYLOAD_BYTES=("), C_LIBRARY);
        let compile = compile.expect_err("it does not compile");
        assert!(
            compile.reason.starts_with("the measured program does not compile: ") && compile.reason.contains("error: "),
            "{compile:?}"
        );
    }

    #[test]
    fn a_folder_of_a_run_that_lives_is_no_leftover() {
        let workshop = workshop();
        let session = workshop.folder("session").expect("a new folder");
        Workshop::remove_leftovers();
        assert!(session.path().is_dir() && workshop.path("sources/rounds.h").is_file());
        let others = || tempfile::Builder::new().prefix(PREFIX).tempdir().expect("a new folder");
        let (abandoned, of_somebody_else) = (others(), others());
        fs::write(abandoned.path().join(MARK), "").expect("it is ours");
        Workshop::remove_leftovers();
        assert!(!abandoned.path().exists() && of_somebody_else.path().exists());
    }
}
