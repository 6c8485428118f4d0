// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices and disks of a test's own, whose memory are files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Workplace;
use crate::report::text;

/// A device whose memory is a file.
pub struct LoopDevice(pub String);

impl LoopDevice {
    /// `None`, once said why, where such devices cannot be made.
    pub fn of(place: &Workplace, file: &Path) -> Option<LoopDevice> {
        let made = place.run("losetup", &["--find", "--show", text(file)]);
        if !made.success() {
            println!("skipped: loop devices cannot be made here");
            return None;
        }
        Some(LoopDevice(made.stdout.trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.0]);
    }
}

/// A disk with an ext4 of its own.
pub struct Disk {
    /// Where it is mounted.
    pub folder: PathBuf,
    _device: LoopDevice,
}

impl Disk {
    /// One of so many bytes, of which so many per cent are kept for root. `None`, once said why, where there can be none.
    pub fn new(place: &Workplace, bytes: u64, reserved_percent: u32) -> Option<Disk> {
        Disk::made(place, bytes, &["-m", &reserved_percent.to_string()], &[])
    }

    /// One of so many bytes, of which a user may have so many. `None`, once said why, where there can be none.
    pub fn with_quota(place: &Workplace, bytes: u64, uid: u32, quota_bytes: u64) -> Option<Disk> {
        let disk = Disk::made(
            place,
            bytes,
            &["-O", "quota", "-E", "quotatype=usrquota"],
            &["-o", "usrquota"],
        )?;
        let (uid, quota_kib) = (uid.to_string(), (quota_bytes >> 10).to_string());
        let limits = ["-u", &uid, "0", &quota_kib, "0", "0", text(&disk.folder)];
        if !run("setquota", &limits) {
            println!("skipped: quotas cannot be set here (setquota)");
            return None;
        }
        Some(disk)
    }

    fn made(place: &Workplace, bytes: u64, mkfs_options: &[&str], mount_options: &[&str]) -> Option<Disk> {
        let (file, folder) = (place.path("disk.memory"), place.path("disk"));
        let made = File::create(&file).and_then(|file| file.set_len(bytes));
        made.and_then(|()| std::fs::create_dir(&folder))
            .expect("files can be made there");
        let device = LoopDevice::of(place, &file)?;
        let mkfs = [&["-q"], mkfs_options, &[&device.0]].concat();
        let mount = [mount_options, &[&device.0, text(&folder)]].concat();
        for (program, arguments) in [("mkfs.ext4", mkfs), ("mount", mount)] {
            let done = place.run(program, &arguments);
            if !done.success() {
                println!("skipped: there can be no such ext4 here: {done}");
                return None;
            }
        }
        Some(Disk {
            folder,
            _device: device,
        })
    }

    /// Whoever writes to it waits, until it is thawed.
    pub fn freeze(&self) -> Frozen<'_> {
        assert!(run("fsfreeze", &["--freeze", text(&self.folder)]), "it can be frozen");
        Frozen(self)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Those who write to it may not have ended yet.
        run("umount", &["--lazy", text(&self.folder)]);
    }
}

/// A disk on which nobody gets on, until this is dropped.
pub struct Frozen<'a>(&'a Disk);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        run("fsfreeze", &["--unfreeze", text(&self.0.folder)]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .status()
        .is_ok_and(|status| status.success())
}
