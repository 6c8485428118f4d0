// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where everything is made that a run needs: a temporary folder, and the programs that are compiled into it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, io};

use piste_kernel::answer::answers;
use piste_kernel::tracefs::Tracefs;
use piste_reason::reason;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::error::{Absence, Error};
use crate::peers::PAYLOAD_BYTES;
use crate::processes::{Patience, find, has_ended, output_of};

/// The measured programs, and what they have in common. bench/programs.py compiles some of them, too.
const SOURCES: [(&str, &str); 18] = [
    ("rounds.h", include_str!("measured/rounds.h")),
    ("rounds.c", include_str!("measured/rounds.c")),
    ("counters.h", include_str!("measured/counters.h")),
    ("counters.c", include_str!("measured/counters.c")),
    ("floor.c", include_str!("measured/floor.c")),
    ("prototype.c", include_str!("measured/prototype.c")),
    ("piste.c", include_str!("measured/piste.c")),
    ("lttng.c", include_str!("measured/lttng.c")),
    ("lttng-event.h", include_str!("measured/lttng-event.h")),
    ("lttng-formatted.c", include_str!("measured/lttng-formatted.c")),
    ("marker.c", include_str!("measured/marker.c")),
    ("probed.c", include_str!("measured/probed.c")),
    ("static_probe.c", include_str!("measured/static_probe.c")),
    ("calls.c", include_str!("measured/calls.c")),
    ("turn.h", include_str!("measured/turn.h")),
    ("turn-piste.c", include_str!("measured/turn-piste.c")),
    ("turn-lttng.c", include_str!("measured/turn-lttng.c")),
    ("turn-probed.c", include_str!("measured/turn-probed.c")),
];

/// What the names of folders begin with; the process id follows.
const PREFIX: &str = "piste-bench-";
/// What all measured programs have.
const ROUNDS: [&str; 2] = ["rounds.c", "counters.c"];
/// A loop of a few instructions takes twice as long where it happens to lie across two cache lines.
const FLAGS: [&str; 4] = ["-std=gnu11", "-O2", "-falign-loops=64", "-g"];

/// The folder, the compiler, and the installed Piste.
pub(crate) struct Workshop {
    folder: TempDir,
    compiler: OsString,
    /// The program `piste`.
    pub(crate) piste: PathBuf,
    pub(crate) patience: Patience,
    /// Sizes of payloads, beside the usual one.
    payloads: Vec<u32>,
}

/// Programs by the bytes of payload that their events have.
pub(crate) type Sized = BTreeMap<u32, PathBuf>;

impl Workshop {
    /// A new folder, with the sources.
    pub(crate) fn new(piste: &Path, payloads: &[u32], patience: Patience) -> Result<Workshop, Error> {
        let make = || -> io::Result<TempDir> {
            let folder = tempfile::Builder::new()
                .prefix(&format!("{PREFIX}{}-", process::id()))
                .tempdir()?;
            fs::create_dir(folder.path().join("sources"))?;
            for (name, text) in SOURCES {
                fs::write(folder.path().join("sources").join(name), text)?;
            }
            Ok(folder)
        };
        let folder = make().map_err(|error| {
            let place = env::temp_dir();
            Error::new(format!(
                "cannot write to {}: {}; set TMPDIR to another folder",
                place.display(),
                reason(&error)
            ))
        })?;
        Ok(Workshop {
            folder,
            compiler: env::var_os("CC").filter(|name| !name.is_empty()).unwrap_or("cc".into()),
            piste: piste.to_owned(),
            patience,
            payloads: payloads.to_vec(),
        })
    }

    /// Removes the folders that runs left which were killed.
    pub(crate) fn remove_leftovers() {
        let own = geteuid().as_raw();
        for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.split('-').next()?.parse().ok());
            let is_ours = entry
                .metadata()
                .is_ok_and(|folder| folder.is_dir() && folder.uid() == own);
            if is_ours && pid.is_some_and(has_ended) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
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
                format!("there is no C compiler ({named}), with which the measured program is made"),
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
        Ok(output_of(&mut command).is_ok())
    }

    /// Compiles a measured program. Returns its path.
    pub(crate) fn compile(&self, name: &str, sources: &[&str], flags: &[String]) -> Result<PathBuf, Absence> {
        let sources = [sources, &ROUNDS].concat();
        let flags = [flags, &["-lpthread".to_owned()]].concat();
        self.compile_file(name, &sources, &flags)
    }

    /// Compiles a library with an event, which another program loads. Returns its path.
    pub(crate) fn compile_library(&self, name: &str, source: &str, flags: &[String]) -> Result<PathBuf, Absence> {
        let of_library = ["-shared", "-fPIC", "-fvisibility=hidden"].map(str::to_owned);
        self.compile_file(name, &[source], &[&of_library, flags].concat())
    }

    fn compile_file(&self, name: &str, sources: &[&str], flags: &[String]) -> Result<PathBuf, Absence> {
        let program = self.path(name);
        let mut command = Command::new(self.compiler()?);
        command
            .args(FLAGS)
            .arg("-o")
            .arg(&program)
            .arg("-I")
            .arg(self.path("sources"));
        for source in sources {
            command.arg(self.path("sources").join(source));
        }
        command.args(flags);
        match output_of(&mut command) {
            Ok(_) => Ok(program),
            Err(error) => Err(Absence::new(
                format!("the measured program does not compile: {error}"),
                "install the C library's headers (Debian: apt install gcc libc6-dev)",
            )),
        }
    }

    /// The same for each size of payload.
    pub(crate) fn compile_sized(&self, name: &str, sources: &[&str], flags: &[String]) -> Result<Sized, Absence> {
        let mut programs = Sized::from([(PAYLOAD_BYTES, self.compile(name, sources, flags)?)]);
        for payload in &self.payloads {
            let flags = [flags, &[format!("-DPAYLOAD_BYTES={payload}")]].concat();
            programs.insert(*payload, self.compile(&format!("{name}-{payload}"), sources, &flags)?);
        }
        Ok(programs)
    }

    /// The kernel's tracing.
    pub(crate) fn tracefs(&self) -> Result<Tracefs, Absence> {
        let found = Tracefs::find().and_then(|tracefs| answers(&tracefs).map(|()| tracefs));
        found.map_err(|lack| Absence::new(lack.reason, "run `piste bench` as root, and see `piste doctor`"))
    }
}
