// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where instructions begin. The kernel puts its breakpoint wherever it is told; in the middle of an instruction it makes another one of it, and
//! the program computes something else.
//!
//! Instructions of x86 differ in length, so a function is decoded from its first one on. Other architectures are not decoded; there, what
//! begins nowhere near an instruction is at least not aligned.

use iced_x86::{Decoder, DecoderOptions};
use object::Architecture;

use super::elf::Elf;

/// The longest instruction.
const INSTRUCTION_BYTES_MAX: u64 = 15;
/// A function that is longer is not decoded: its file may be made to keep others waiting. That takes a tenth of a second.
const DECODED_BYTES_MAX: u64 = 16 << 20;

/// Why a place in a function is not known to be where an instruction begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It is the middle of one: bytes from the function's beginning to that one, and to the next.
    Inside { begin: u64, next: u64 },
    /// There is no instruction so many bytes behind the function's beginning.
    Undecodable { at: u64 },
    /// The function is too long.
    TooFar,
    /// Nobody decodes programs of this architecture.
    Architecture,
}

/// Whether an instruction begins `plus` bytes behind the beginning of a function, which is at an offset of the file.
pub(super) fn check(elf: &Elf, function: u64, plus: u64) -> Result<(), Doubt> {
    let bits = match elf.architecture() {
        Architecture::X86_64 => 64,
        Architecture::I386 => 32,
        _ => return Err(Doubt::Architecture),
    };
    if plus > DECODED_BYTES_MAX {
        return Err(Doubt::TooFar);
    }
    let code = elf.code(function, plus + INSTRUCTION_BYTES_MAX).unwrap_or(&[]);
    check_code(code, bits, plus)
}

/// Whether an instruction could begin at an address at all.
pub(super) fn is_aligned(elf: &Elf, address: u64) -> bool {
    address.is_multiple_of(match elf.architecture() {
        Architecture::X86_64 | Architecture::I386 => 1,
        Architecture::S390x | Architecture::Riscv64 | Architecture::Riscv32 => 2,
        _ => 4,
    })
}

fn check_code(code: &[u8], bits: u32, plus: u64) -> Result<(), Doubt> {
    let mut decoder = Decoder::new(bits, code, DecoderOptions::NONE);
    let mut begin = 0;
    // The one at the place is decoded, too: a place behind which there is none is nothing to probe.
    while begin <= plus {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Doubt::Undecodable { at: begin });
        }
        let next = begin + instruction.len() as u64;
        if begin < plus && plus < next {
            return Err(Doubt::Inside { begin, next });
        }
        begin = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `push %rbp; mov %rsp,%rbp; movabs $0x9090909090909090,%rax; lock cmpxchg %rcx,(%rdx); ret`.
    const CODE: &[u8] = b"\x55\x48\x89\xe5\x48\xb8\x90\x90\x90\x90\x90\x90\x90\x90\xf0\x48\x0f\xb1\x0a\xc3";

    #[test]
    fn only_the_beginnings_of_instructions_pass() {
        let begins: Vec<u64> = (0..20).filter(|&plus| check_code(CODE, 64, plus).is_ok()).collect();
        assert_eq!(begins, [0, 1, 4, 14, 19]);
        // What looks like one within another.
        assert_eq!(check_code(CODE, 64, 7), Err(Doubt::Inside { begin: 4, next: 14 }));
        // Without its lock.
        assert_eq!(check_code(CODE, 64, 15), Err(Doubt::Inside { begin: 14, next: 19 }));
    }

    #[test]
    fn nothing_is_known_behind_what_is_no_instruction() {
        let code = [&CODE[..20], b"\x06\x90\x90"].concat();
        for plus in 20..23 {
            assert_eq!(check_code(&code, 64, plus), Err(Doubt::Undecodable { at: 20 }));
        }
        // The same bytes are instructions of 32 bits: `push %es`.
        assert_eq!(check_code(&code[20..], 32, 1), Ok(()));
        for bytes in 1..4 {
            assert_eq!(check_code(&CODE[..bytes], 64, 1), Err(Doubt::Undecodable { at: 1 }));
        }
    }
}
