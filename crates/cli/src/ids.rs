// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of processes, threads, users and groups, as people write them: several are parted by commas, which the options do.

use std::fs;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// The number of a process or thread, or of a group or session of processes.
pub(crate) fn parse_id<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "not a number; write for example 1234, or 1234,1240 for several".into())
}

/// A user's number, or the name that `/etc/passwd` has.
pub(crate) fn parse_user(text: &str) -> Result<u32, String> {
    number_or_name(text, "user", "/etc/passwd")
}

/// A group's number, or the name that `/etc/group` has.
pub(crate) fn parse_group(text: &str) -> Result<u32, String> {
    number_or_name(text, "group", "/etc/group")
}

/// How many threads work.
pub(crate) fn parse_thread_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "must be a number, 1 or more".into())
}

fn number_or_name(text: &str, what: &str, list: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let names = fs::read(list).unwrap_or_default();
    number_of(&String::from_utf8_lossy(&names), text)
        .ok_or_else(|| format!("neither a number nor a {what} in {list}; write for example 0, 1000 or root"))
}

/// Of `name:password:number:...` lines.
fn number_of(list: &str, name: &str) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut parts = line.split(':');
        let number = (parts.next() == Some(name)).then(|| parts.nth(1)).flatten()?;
        number.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_what_is_allowed_is_said() {
        let list = "root:x:0:0:root:/root:/bin/sh\nbad\nana:x:1000:1000::/home/ana:/bin/sh\n";
        assert_eq!(number_of(list, "root"), Some(0));
        assert_eq!(number_of(list, "ana"), Some(1000));
        assert_eq!(number_of(list, "bad"), None);
        assert_eq!(number_of(list, ""), None);
        assert_eq!(parse_user("1001"), Ok(1001));
        assert!(parse_user("no such user").unwrap_err().contains("/etc/passwd"));
        assert!(parse_id::<i64>("1-5").unwrap_err().contains("1234,1240"));
        assert_eq!(parse_id::<u32>("7"), Ok(7));
        assert!(parse_thread_count("0").is_err());
    }
}
