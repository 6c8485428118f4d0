// SPDX-License-Identifier: MIT OR Apache-2.0
//! What descriptors stand for while `piste strace -y` prints calls: the model of the analyses follows them through the same events.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use piste_analysis::model::File;
use piste_modelling::Growing;
use piste_strace::{AT_FDCWD, Descriptors};

/// Descriptors of the threads of a trace that grows.
pub(crate) struct OpenFiles {
    pub(crate) model: Growing,
    /// What the command begins with.
    inherited: Vec<Inherited>,
}

/// A descriptor that commands inherit from this process.
struct Inherited {
    descriptor: i32,
    name: Vec<u8>,
}

impl OpenFiles {
    /// Before the first event.
    ///
    /// # Errors
    /// This process cannot find out what it has open.
    pub(crate) fn new() -> io::Result<OpenFiles> {
        Ok(OpenFiles {
            model: Growing::default(),
            inherited: inherited()?,
        })
    }

    /// This thread is about to become the command.
    pub(crate) fn begin_command(&mut self, tid: i32) {
        if let Some(system) = self.model.system_mut() {
            for Inherited { descriptor, name } in &self.inherited {
                system.foretell_file(tid, *descriptor, name);
            }
        }
    }

    fn text(&self, file: Option<File>) -> Option<&str> {
        let system = self.model.system()?;
        file.map(|file| system.names.text(file.name))
    }
}

impl Descriptors for OpenFiles {
    fn name(&self, tid: i32, descriptor: i32) -> Option<&str> {
        self.text(self.model.system()?.file_of(tid, descriptor))
    }

    fn name_of_new(&self, tid: i32, descriptor: i32) -> Option<&str> {
        self.text(self.model.system()?.file_opened(tid, descriptor))
    }
}

/// The working directory, and what stays open when a program is executed.
fn inherited() -> io::Result<Vec<Inherited>> {
    let own = PathBuf::from("/proc/self");
    let mut all = vec![Inherited {
        descriptor: AT_FDCWD,
        name: fs::read_link(own.join("cwd"))?.into_os_string().into_vec(),
    }];
    for entry in fs::read_dir(own.join("fd"))? {
        let number = entry?.file_name();
        let info = fs::read_to_string(own.join("fdinfo").join(&number));
        let name = fs::read_link(own.join("fd").join(&number));
        // The folder that is being read is closed by then.
        if let (Ok(info), Ok(name), Some(descriptor)) = (info, name, number.to_str().and_then(|text| text.parse().ok()))
            && !is_close_on_exec(&info)
        {
            let name = name.into_os_string().into_vec();
            all.push(Inherited { descriptor, name });
        }
    }
    Ok(all)
}

/// The line `flags:\t02100002`, in octal.
fn is_close_on_exec(info: &str) -> bool {
    const O_CLOEXEC: u32 = 0o2_000_000;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & O_CLOEXEC != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_on_exec_is_not_inherited() {
        assert!(is_close_on_exec("pos:\t0\nflags:\t02100002\n"));
        assert!(!is_close_on_exec("pos:\t0\nflags:\t0100002\n"));
        let kept = fs::File::open("/proc/self/status").expect("there is one");
        let all = inherited().expect("it can be read");
        assert_eq!(all[0].descriptor, AT_FDCWD);
        assert!(
            !all.iter().any(|own| own.name.ends_with(b"/status")),
            "it is close-on-exec"
        );
        drop(kept);
    }
}
