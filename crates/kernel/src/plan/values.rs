// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that readers know in other units, or other bits, than the kernel has.

/// A thread's priority as readers know it: 0 to 39 are ordinary threads, real-time threads are below.
#[inline]
pub(super) fn priority(kernel: i32) -> i32 {
    const REALTIME_PRIORITIES: i32 = 100;
    kernel.wrapping_sub(REALTIME_PRIORITIES)
}

/// Why a thread left its CPU: bit by bit from what kernels since 4.14 report to what readers know. All else is the same in both.
///
/// | kernel | | readers |
/// |---|---|---|
/// | 0x10, 0x20 | dead, zombie | 64 |
/// | 0x40 | parked | 512 |
/// | 0x80 | idle | 2, waits without being disturbed |
/// | 0x100 | preempted | 0, waits for a CPU |
#[inline]
pub(super) fn task_state(kernel: u64) -> u64 {
    let bit = |from: u64, to: u64| if kernel & from != 0 { to } else { 0 };
    (kernel & !0x1f0) | bit(0x30, 64) | bit(0x40, 512) | bit(0x80, 2)
}

/// The kernel's bits of which one is set when, and only when, one of these bits that readers know is.
pub(crate) fn kernel_state_bits(readers: u64) -> u64 {
    let bit = |from: u64, to: u64| if readers & from != 0 { to } else { 0 };
    (readers & !0x1f0) | bit(64, 0x30) | bit(512, 0x40) | bit(2, 0x80)
}

/// What a block request is, from the letters that the kernel makes of it.
///
/// `F` before another operation asks for a flush first, alone or as the operation it is one; behind the operation it writes through the
/// cache.
pub(super) fn request(letters: &[u8]) -> u32 {
    const WRITE: u32 = 1;
    const DISCARD: u32 = 2;
    const READ: u32 = 4;
    const READ_AHEAD: u32 = 8;
    const SYNC: u32 = 32;
    const META: u32 = 64;
    const SECURE: u32 = 128;
    const FLUSH: u32 = 256;
    const WRITE_THROUGH: u32 = 512;
    const FLUSH_FIRST: u32 = 1024;
    let letters = letters.split(|letter| *letter == 0).next().unwrap_or_default();
    let (first, letters) = match letters {
        [b'F', rest @ ..] if matches!(rest, [b'W' | b'D' | b'F' | b'R' | b'N' | b'Z', ..]) => (FLUSH_FIRST, rest),
        _ => (0, letters),
    };
    let (operation, flags) = match letters {
        [b'W', flags @ ..] => (WRITE, flags),
        [b'D', b'E', flags @ ..] => (DISCARD | SECURE, flags),
        [b'D', flags @ ..] => (DISCARD, flags),
        [b'F', flags @ ..] => (FLUSH, flags),
        [b'R', flags @ ..] => (READ, flags),
        // Operations on zones are a letter more.
        [b'Z', _, flags @ ..] | [_, flags @ ..] => (0, flags),
        [] => (0, letters),
    };
    flags.iter().fold(first | operation, |bits, letter| {
        bits | match letter {
            b'F' => WRITE_THROUGH,
            b'A' => READ_AHEAD,
            b'S' => SYNC,
            b'M' => META,
            _ => 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_states_are_found_in_the_kernels() {
        for kernel in 0..0x1000 {
            for bit in 0..12 {
                let is_set = task_state(kernel) & (1 << bit) != 0;
                assert_eq!(kernel & kernel_state_bits(1 << bit) != 0, is_set, "{kernel:#x} {bit}");
            }
        }
    }

    #[test]
    fn states_are_those_that_readers_know() {
        for (kernel, readers) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (4, 4),
            (8, 8),
            (0x10, 64),
            (0x20, 64),
            (0x40, 512),
            (0x80, 2),
            (0x100, 0),
            (0x400, 0x400),
        ] {
            assert_eq!(task_state(kernel), readers, "{kernel:#x}");
        }
    }

    #[test]
    fn letters_of_a_request_are_bits() {
        for (letters, bits) in [
            ("R", 4),
            ("RA", 4 | 8),
            ("W", 1),
            ("WS", 1 | 32),
            ("WFS", 1 | 512 | 32),
            ("FWFSM", 1024 | 1 | 512 | 32 | 64),
            ("F", 256),
            ("FF", 1024 | 256),
            ("D", 2),
            ("DE", 2 | 128),
            ("N", 0),
            ("ZAS", 32),
            ("", 0),
        ] {
            let mut bytes = letters.as_bytes().to_vec();
            bytes.resize(10, 0);
            assert_eq!(request(&bytes), bits, "{letters}");
            assert_eq!(request(letters.as_bytes()), bits, "{letters}");
        }
    }
}
