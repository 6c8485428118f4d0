// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which part of the stack an event carries, as options and as text: `kernel,user:16`, `0x400000-0x500000`.

use piste_control::interface::CallStack;

/// `--callstack`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StackChoice {
    kernel: bool,
    user: bool,
    depth: Option<u32>,
}

/// `--callstack-range`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressRange {
    begin: u64,
    end: u64,
}

/// `kernel`, `user:8`, `kernel,user`
pub(crate) fn parse_choice(text: &str) -> Result<StackChoice, String> {
    let (stacks, depth) = match text.split_once(':') {
        Some((stacks, depth)) => match depth.parse() {
            Ok(depth) if depth > 0 => (stacks, Some(depth)),
            _ => {
                return Err(format!(
                    "{depth:?} is not a number of frames; write for example kernel:8"
                ));
            }
        },
        None => (text, None),
    };
    let mut choice = StackChoice {
        kernel: false,
        user: false,
        depth,
    };
    for stack in stacks.split(',') {
        match stack {
            "kernel" => choice.kernel = true,
            "user" => choice.user = true,
            _ => return Err(format!("there is no stack {stack:?}; use kernel, user, or kernel,user")),
        }
    }
    Ok(choice)
}

/// `0x400000-0x500000`
pub(crate) fn parse_range(text: &str) -> Result<AddressRange, String> {
    let address = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let addresses = text
        .split_once('-')
        .and_then(|(begin, end)| Some((address(begin)?, address(end)?)));
    match addresses {
        Some((begin, end)) if begin < end => Ok(AddressRange { begin, end }),
        Some(_) => Err("ends before it begins".into()),
        None => Err("is not a range of addresses; write for example 0x400000-0x500000".into()),
    }
}

impl StackChoice {
    /// The same, for pisted.
    pub(crate) fn request(self, range: Option<AddressRange>) -> CallStack {
        CallStack {
            kernel: self.kernel,
            user: self.user,
            depth: self.depth.map(i64::from),
            // Addresses of the kernel are in the upper half: negative there, and the same bits.
            range_begin: range.map(|range| range.begin.cast_signed()),
            range_end: range.map(|range| range.end.cast_signed()),
        }
    }
}

/// `kernel and user stack, 8 frames`
pub(crate) fn text(stack: &CallStack) -> String {
    let mut text = match (stack.kernel, stack.user) {
        (true, true) => "kernel and user stack",
        (true, false) => "kernel stack",
        _ => "user stack",
    }
    .to_owned();
    if let Some(depth) = stack.depth {
        text += &format!(", {depth} frames");
    }
    if let (Some(begin), Some(end)) = (stack.range_begin, stack.range_end) {
        text += &format!(" from {begin:#x}-{end:#x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_and_ranges_are_read_and_shown() {
        let choice = parse_choice("kernel,user:8").unwrap();
        let range = parse_range("0xffffffff81000000-0xffffffff82000000").unwrap();
        assert_eq!(
            text(&choice.request(Some(range))),
            "kernel and user stack, 8 frames from 0xffffffff81000000-0xffffffff82000000"
        );
        assert_eq!(text(&parse_choice("user").unwrap().request(None)), "user stack");
        for wrong in ["", "kern", "kernel:0", "kernel:x", "kernel,"] {
            assert!(parse_choice(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "5", "0x20-0x10", "a-b"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
