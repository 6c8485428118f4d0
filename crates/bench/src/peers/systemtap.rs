// SPDX-License-Identifier: MIT OR Apache-2.0
//! SystemTap: a module of the kernel that counts the entry and the return of `getppid` with kprobes. It is compiled once, and loaded for each block.

use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use piste_reason::reason;
use rustix::system::uname;

use super::attached::{Attached, read};
use super::{CallSession, CallTracer, Found, Peer, Recorded, RowKind, is_root};
use crate::error::{Absence, Error};
use crate::processes::{Patience, bound, find, output_of};
use crate::report::Group;
use crate::workshop::{READING_LIMIT, Workshop};

pub(super) const PEER: Peer = Peer {
    name: "systemtap",
    about: "a kernel module that counts, through SystemTap",
    group: Group::Calls,
    rows: &[RowKind::recorded("systemtap", "SystemTap, counting", "call")],
    find: |workshop| {
        for program in ["stap", "staprun"] {
            if find(program).is_none() {
                return Err(Absence::of_program(program, "systemtap linux-headers-$(uname -r)"));
            }
        }
        let release = uname().release().to_string_lossy().into_owned();
        let headers = fs::canonicalize(format!("/lib/modules/{release}/build")).map_err(|_| {
            Absence::new(
                format!("the headers of Linux {release} are not installed"),
                "install them (Debian: apt install linux-headers-$(uname -r))",
            )
        })?;
        let function = match ARCH {
            "x86_64" => "__x64_sys_getppid",
            "aarch64" => "__arm64_sys_getppid",
            _ => return Err(Absence::for_good("SystemTap is measured on x86-64 and aarch64 only")),
        };
        let symbols = format!("/boot/System.map-{release}");
        let has_function = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains(function));
        // Debian's file is empty but for a comment.
        if ![&headers.join("System.map"), Path::new(&symbols)]
            .map(has_function)
            .contains(&true)
        {
            return Err(Absence::new(
                format!("SystemTap finds no functions of the kernel in {symbols}"),
                "list them there (as root: cp /proc/kallsyms /boot/System.map-$(uname -r))",
            ));
        }
        is_root()?;
        let module = compile(workshop, &headers, function).map_err(|error| {
            Absence::new(
                format!("SystemTap cannot compile its module: {error}"),
                format!("install a version of SystemTap that knows Linux {release}"),
            )
        })?;
        Ok(Found::Calls(Box::new(SystemTap { module })))
    },
};

const SCRIPT: &str = include_str!("systemtap.stp");
/// Where stap keeps what it has compiled. Its own folder in the home of root would remain.
const CACHE: &str = "SYSTEMTAP_DIR";

fn compile(workshop: &Workshop, headers: &Path, function: &str) -> Result<PathBuf, Error> {
    let script = workshop.path("systemtap.stp");
    fs::write(&script, SCRIPT).map_err(|error| cannot_write(&script, &error))?;
    let mut command = bound("stap");
    command.args(["-p4", "-r"]).arg(headers).arg(&script).arg(function);
    command.env("TMPDIR", workshop.path(""));
    if env::var_os(CACHE).is_none() {
        command.env(CACHE, workshop.path("systemtap-cache"));
    }
    let printed = output_of(&mut command, &workshop.patience.of(READING_LIMIT))?;
    let module = printed.lines().find(|line| line.ends_with(".ko"));
    module
        .map(PathBuf::from)
        .ok_or_else(|| Error::new("stap names no module"))
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::new(format!("cannot write {}: {}", path.display(), reason(error)))
}

struct SystemTap {
    module: PathBuf,
}

impl CallTracer for SystemTap {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let name = self.module.file_stem().unwrap_or_default().to_owned();
        // staprun changes them for any module, and so also when it unloads one: they are restored at the very end.
        let settings = Settings::save();
        let loaded = Loaded(name);
        // Of a run that was killed. One that is in use is not removed.
        loaded.unload();
        let output = workshop.path("systemtap");
        let file = File::create(&output).map_err(|error| cannot_write(&output, &error))?;
        let mut command = bound("staprun");
        command.args(["-x", &pid.to_string()]).arg(&self.module).stdout(file);
        let is_attached = |_| fs::read_to_string(&output).is_ok_and(|text| text.contains("attached\n"));
        // It ends once its module is unloaded.
        let attached = Attached::start(workshop, &mut command, is_attached)?;
        Ok(Box::new(Session {
            attached,
            output,
            _loaded: loaded,
            _settings: settings,
        }))
    }
}

struct Session {
    attached: Attached,
    output: PathBuf,
    /// Unloaded after it has ended.
    _loaded: Loaded,
    /// Restored after that.
    _settings: Settings,
}

impl CallSession for Session {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        self.attached.end()?;
        let text = read(&self.output)?;
        let count = text.lines().find_map(|line| line.strip_prefix("calls: ")?.parse().ok());
        Ok(Recorded::events(count.unwrap_or(0)))
    }
}

/// The name of a module. staprun unloads it when it ends, unless a signal comes while it is still loading it.
struct Loaded(OsString);

impl Loaded {
    fn unload(&self) {
        if Path::new("/sys/module").join(&self.0).exists() {
            let mut command = Command::new("staprun");
            // There is nobody who could do more about it.
            let _ = output_of(command.arg("-d").arg(&self.0), &Patience::for_the_end());
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.unload();
    }
}

/// What staprun sets for its module, and does not restore.
struct Settings(Vec<(&'static str, String)>);

impl Settings {
    const FILES: [&'static str; 2] = ["/proc/sys/kernel/kptr_restrict", "/proc/sys/debug/kprobes-optimization"];

    fn save() -> Settings {
        let saved = Settings::FILES
            .into_iter()
            .filter_map(|file| Some((file, fs::read_to_string(file).ok()?)));
        Settings(saved.collect())
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        for (file, value) in &self.0 {
            let _ = fs::write(file, value);
        }
    }
}
