// SPDX-License-Identifier: MIT OR Apache-2.0
//! What strace writes of system calls: `strace -f -xx -o FILE`, which prints every string as `"\x2f\x61"`.

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The thread.
    pub tid: i32,
    /// As programs call it.
    pub name: String,
    /// Arguments and result as strace prints them. Of a call that never returned, as far as it goes.
    pub text: String,
}

/// The calls that a log has, in the order in which they began.
pub fn calls(log: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for line in log.lines() {
        let Some((tid, rest)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let (Ok(tid), rest) = (tid.parse(), rest.trim_start()) else {
            continue;
        };
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (name, behind) = resumed.split_once(" resumed>").unwrap_or((resumed, ""));
            // The last one of the thread: it is in one call at a time.
            let begun = calls.iter_mut().rev().find(|call| call.tid == tid && call.name == name);
            if let Some(call) = begun {
                call.text += behind;
            }
        } else if let Some((name, text)) = rest.split_once('(')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            calls.push(Call {
                tid,
                name: name.to_owned(),
                text: text.strip_suffix(" <unfinished ...>").unwrap_or(text).to_owned(),
            });
        }
    }
    calls
}

impl Call {
    /// The bytes of its strings: of those that are in the memory of the program.
    pub fn strings(&self) -> Vec<Vec<u8>> {
        const MADE_BY_STRACE: [&str; 3] = ["inet_addr(", "AF_INET6, ", "if_nametoindex("];
        let parts: Vec<&str> = self.text.split('"').collect();
        let strings = parts.windows(2).step_by(2);
        let from_memory = strings.filter(|part| !MADE_BY_STRACE.iter().any(|made| part[0].ends_with(made)));
        from_memory.map(|part| unescaped(part[1])).collect()
    }

    /// The IPv4 addresses among its socket addresses.
    pub fn addresses(&self) -> Vec<[u8; 4]> {
        let found = self.text.split("sin_addr=inet_addr(\"").skip(1);
        let texts = found.filter_map(|rest| Some(unescaped(rest.split('"').next()?)));
        let addresses = texts.filter_map(|text| String::from_utf8(text).ok()?.parse::<std::net::Ipv4Addr>().ok());
        addresses.map(|address| address.octets()).collect()
    }

    /// The IPv6 addresses among its socket addresses.
    pub fn long_addresses(&self) -> Vec<[u16; 8]> {
        let found = self.text.split("inet_pton(AF_INET6, \"").skip(1);
        let texts = found.filter_map(|rest| {
            let (text, behind) = rest.split_once('"')?;
            behind.starts_with(", &sin6_addr").then(|| unescaped(text))
        });
        let addresses = texts.filter_map(|text| String::from_utf8(text).ok()?.parse::<std::net::Ipv6Addr>().ok());
        addresses.map(|address| address.segments()).collect()
    }

    /// The ports among its socket addresses.
    pub fn ports(&self) -> Vec<u16> {
        let found = self.text.split("_port=htons(").skip(1);
        found.filter_map(|rest| rest.split(')').next()?.parse().ok()).collect()
    }
}

/// `\x2f\x61`, or as it is.
fn unescaped(text: &str) -> Vec<u8> {
    let pairs = text.split("\\x").skip(1);
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
    match bytes {
        Some(bytes) if text.is_empty() || text.starts_with("\\x") => bytes,
        _ => text.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = r#"41    execve("\x2f\x61", ["\x61", "\x62\x22"], 0x7ffd /* 3 vars */) = 0
41    connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16 <unfinished ...>
42    openat(AT_FDCWD, "", O_RDONLY) = -1 ENOENT (No such file or directory)
41    <... connect resumed>) = 0
41    --- SIGCHLD {si_signo=SIGCHLD} ---
42    exit_group(0) = ?
42    +++ exited with 0 +++
"#;
        let calls = calls(log);
        let names: Vec<_> = calls.iter().map(|call| (call.tid, call.name.as_str())).collect();
        assert_eq!(
            names,
            [(41, "execve"), (41, "connect"), (42, "openat"), (42, "exit_group")]
        );
        assert_eq!(calls[0].strings(), [&b"/a"[..], b"a", b"b\""]);
        assert_eq!(calls[1].text.rsplit(' ').next(), Some("0"));
        assert_eq!(
            (calls[1].addresses(), calls[1].ports()),
            (vec![[127, 0, 0, 1]], vec![80])
        );
        assert_eq!(calls[2].strings(), [b""]);
    }
}
