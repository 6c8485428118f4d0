// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were built for another version of the contract. They run unrecorded, their connections are closed at once, and they are
//! listed for as long as they run, so that people see why there is nothing of them.

use std::fs;
use std::sync::Arc;

use super::host;
use super::program_list::KnownProgram;
use crate::description::printable;
use crate::link::Finding;
use crate::message::Hello;
use crate::session::ProgramId;

/// Programs of one user that are remembered; of more, the last ones.
const PER_USER_MAX: usize = 64;

/// The programs that are remembered.
#[derive(Debug, Default)]
pub struct ForeignPrograms(Vec<ForeignProgram>);

#[derive(Debug)]
struct ForeignProgram {
    pid: i32,
    /// Two processes of one number differ in it.
    start: u64,
    uid: u32,
    version: String,
}

impl ForeignPrograms {
    /// Remembers a process that said hello in `version`.
    pub fn add(&mut self, pid: i32, uid: u32, version: String) {
        self.forget_the_dead();
        self.0.retain(|program| program.pid != pid);
        let of_user = self.0.iter().filter(|program| program.uid == uid).count();
        if of_user >= PER_USER_MAX
            && let Some(first) = self.0.iter().position(|program| program.uid == uid)
        {
            self.0.remove(first);
        }
        if let Some(start) = host::process_start(pid) {
            self.0.push(ForeignProgram {
                pid,
                start,
                uid,
                version,
            });
        }
    }

    /// Those that still run.
    pub fn list(&mut self) -> impl Iterator<Item = KnownProgram> {
        self.forget_the_dead();
        self.0.iter().map(ForeignProgram::known)
    }

    fn forget_the_dead(&mut self) {
        self.0
            .retain(|program| host::process_start(program.pid) == Some(program.start));
    }
}

impl ForeignProgram {
    fn known(&self) -> KnownProgram {
        let process = format!("/proc/{}", self.pid);
        let name = fs::read(format!("{process}/comm")).unwrap_or_default();
        let path = fs::read_link(format!("{process}/exe")).unwrap_or_default();
        let major = self.version.split('.').next().unwrap_or_default();
        let ours = piste_abi::PISTE_ABI_MAJOR;
        KnownProgram {
            id: ProgramId {
                pid: self.pid,
                instance_id: 0,
            },
            uid: self.uid,
            hello: Arc::new(Hello {
                instance_id: 0,
                vpid: self.pid,
                attached: Vec::new(),
                name: printable(name.trim_ascii_end()),
                path: printable(path.as_os_str().as_encoded_bytes()),
                record_id: None,
            }),
            events: Vec::new(),
            channels: Vec::new(),
            findings: vec![Finding {
                what: format!("not recorded: built for ABI {major}, but this pisted has ABI {ours}; compile it again"),
                count: 1,
            }],
        }
    }
}
