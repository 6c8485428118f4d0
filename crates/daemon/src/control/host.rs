// SPDX-License-Identifier: MIT OR Apache-2.0
//! What /proc, /sys and /etc say about this computer, its processes and its users.

use std::fs;
use std::io::{self, Read};

/// Identifies this boot of the machine: 36 characters, a uuid.
///
/// # Errors
/// There is no /proc.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The 16 bytes of a uuid in its usual text form.
pub fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    parse_hex(&text.replace('-', ""))
}

/// 16 bytes from 32 hex digits.
pub fn parse_hex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

/// 16 bytes as 32 hex digits.
pub fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// CPUs that this machine can have: their numbers are smaller.
pub fn possible_cpu_count() -> u32 {
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let online = || std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    highest_cpu(&possible).map_or_else(online, |highest| highest + 1)
}

/// Of a list like `0-3,8`.
fn highest_cpu(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// What /proc/PID/stat says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its parent; 0 if pisted cannot see that.
    pub parent: i32,
    /// When it started, in clock ticks since boot: two processes of one number differ in it.
    pub start: u64,
}

/// What the kernel says of a process.
pub fn process_stat(pid: i32) -> Option<ProcessStat> {
    // Longer than the line can be up to the fields that are read; one read makes it all at one moment.
    let mut buffer = [0; 1024];
    let count = fs::File::open(format!("/proc/{pid}/stat"))
        .ok()?
        .read(&mut buffer)
        .ok()?;
    ProcessStat::parse(&String::from_utf8_lossy(&buffer[..count]))
}

/// When a process started.
pub fn process_start(pid: i32) -> Option<u64> {
    process_stat(pid).map(|stat| stat.start)
}

impl ProcessStat {
    /// Fields 4 and 22; the second one, in brackets, may hold anything.
    fn parse(stat: &str) -> Option<ProcessStat> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        Some(ProcessStat {
            parent: fields.nth(1)?.parse().ok()?,
            start: fields.nth(17)?.parse().ok()?,
        })
    }
}

/// The user who runs pisted.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of a user, else the number.
pub fn user_name(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    entry_of(&passwd, uid).map_or_else(|| uid.to_string(), |entry| entry[0].to_owned())
}

/// The home of a user as in /etc/passwd; `None` is this one, whose $HOME is asked first.
pub fn home(uid: Option<u32>) -> Option<String> {
    let set = || std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
    let own = if uid.is_none() { set() } else { None };
    own.or_else(|| {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let uid = uid.unwrap_or_else(own_uid);
        entry_of(&passwd, uid)?.get(5).map(|&home| home.to_owned())
    })
}

fn entry_of(passwd: &str, uid: u32) -> Option<Vec<&str>> {
    let uid = uid.to_string();
    passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|entry| entry.get(2) == Some(&&*uid))
}

/// The number of a group.
pub fn group_id(name: &str) -> Option<u32> {
    let group = fs::read_to_string("/etc/group").ok()?;
    let mut entries = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
    entries.find(|entry| entry[0] == name)?.get(2)?.parse().ok()
}

/// The memory of the computer.
pub fn memory_bytes() -> usize {
    let known = rustix::system::sysinfo();
    (known.totalram as usize).saturating_mul(known.mem_unit as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_end_with_the_highest() {
        for (list, highest) in [("0-1\n", Some(1)), ("0\n", Some(0)), ("0-3,8\n", Some(8)), ("", None)] {
            assert_eq!(highest_cpu(list), highest, "{list:?}");
        }
        assert!(possible_cpu_count() >= 1);
    }

    #[test]
    fn the_start_of_a_process_is_found_behind_any_name() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987 20";
        let expected = ProcessStat { parent: 1, start: 987 };
        assert_eq!(ProcessStat::parse(stat), Some(expected));
        assert_eq!(ProcessStat::parse(""), None);
        assert!(process_start(std::process::id() as i32).is_some());
    }

    #[test]
    fn ids_are_32_hex_digits() {
        assert_eq!(parse_hex("000102030405060708090a0b0c0d0e0F").map(|id| id[15]), Some(15));
        assert_eq!(parse_hex("+00102030405060708090a0b0c0d0e0f"), None);
        assert_eq!(parse_hex("00"), None);
        assert_eq!(hex([0xab; 16]), "ab".repeat(16));
        assert!(uuid_bytes(&boot_id().unwrap()).is_some());
    }

    #[test]
    fn users_come_from_passwd() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(entry_of(passwd, 1000).unwrap()[0], "ada");
        assert!(entry_of(passwd, 7).is_none());
    }
}
