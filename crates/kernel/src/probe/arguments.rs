// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of a static probe, in the assembler's words -> in those of tracefs.
//!
//! | assembler | tracefs | |
//! |---|---|---|
//! | `-4@%edi` | `%di:s32` | register; the size before the at is what is recorded of it |
//! | `1@%ah` | `%ax:b8@8/16` | second byte of a register |
//! | `8@$-1` | `\-1:u64` | constant |
//! | `-4@-16(%rbp)` | `-16(%bp):s32` | memory |
//! | `4@count(%rip)`, `4@count+4(%rip)` | `@+0x2e40:u32` | variable of the file, wherever it is loaded |
//!
//! Tracefs does no arithmetic with two registers (`8(%rax,%rcx,4)`) and knows no floating point: such an argument is left out.

use super::elf::Symbol;

/// Where a probe lies, for arguments that are variables of its file.
pub(super) struct Site<'a> {
    /// Address of the probe's instruction.
    pub(super) address: u64,
    /// Its offset in the file.
    pub(super) offset: u64,
    /// The file's symbols, asked for only when an argument names one.
    pub(super) symbols: &'a dyn Fn() -> Vec<Symbol>,
}

/// An argument, or why it is left out.
pub(super) type Argument = Result<String, String>;

/// The arguments as `arg1=%di:s32`, in their order; each is numbered by its place among all of them.
pub(super) fn translate(arguments: &str, site: &Site<'_>) -> Vec<Argument> {
    split(arguments)
        .enumerate()
        .map(|(index, argument)| {
            let number = index + 1;
            translate_one(argument, site)
                .map(|words| format!("arg{number}={words}"))
                .ok_or_else(|| format!("argument {number}, {argument}, cannot be expressed in the syntax of tracefs"))
        })
        .collect()
}

/// Arguments are separated by blanks; some compilers put one after a comma inside of parentheses.
fn split(arguments: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    arguments
        .split(move |character: char| {
            match character {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && character.is_ascii_whitespace()
        })
        .filter(|argument| !argument.is_empty())
}

fn translate_one(argument: &str, site: &Site<'_>) -> Option<String> {
    // The size may be missing: then it is the machine's word.
    let (kind, operand) = match argument.split_once('@') {
        Some((size, operand)) => (kind(size)?, operand),
        None => ("u64", argument),
    };
    if let Some(number) = operand.strip_prefix('$') {
        return Some(format!("\\{}:{kind}", integer(number)?));
    }
    if operand.starts_with('%') {
        let register = register(operand)?;
        return match (register.is_second_byte, kind) {
            (false, _) => Some(format!("%{}:{kind}", register.name)),
            (true, "u8") => Some(format!("%{}:b8@8/16", register.name)),
            (true, _) => None,
        };
    }
    let (displacement, base) = match operand.split_once('(') {
        Some((displacement, base)) => (displacement, Some(base.strip_suffix(')')?.trim())),
        None => (operand, None),
    };
    match (base, integer_or_zero(displacement)) {
        // Of the instruction pointer the file is meant, of other registers the address in them.
        (Some("%rip"), None) | (None, None) => variable(displacement, site).map(|address| format!("{address}:{kind}")),
        (Some(base), Some(displacement)) if base != "%rip" => {
            let register = register(base).filter(|register| !register.is_second_byte)?;
            Some(format!("{displacement:+}(%{}):{kind}", register.name))
        }
        _ => None,
    }
}

fn kind(size: &str) -> Option<&'static str> {
    Some(match size {
        "1" => "u8",
        "2" => "u16",
        "4" => "u32",
        "8" => "u64",
        "-1" => "s8",
        "-2" => "s16",
        "-4" => "s32",
        "-8" => "s64",
        _ => return None,
    })
}

/// `SYMBOL`, `SYMBOL+OFFSET` or `SYMBOL-OFFSET` as an address relative to the file. The kernel computes where the file is loaded from the
/// probe alone, as if all of the file were loaded in one piece; so it is given the distance from the probe.
fn variable(operand: &str, site: &Site<'_>) -> Option<String> {
    let end = operand
        .char_indices()
        .skip(1)
        .find(|&(_, character)| matches!(character, '+' | '-'));
    let (name, plus) = operand.split_at(end.map_or(operand.len(), |(position, _)| position));
    let plus = integer_or_zero(plus)?;
    let symbols = (site.symbols)();
    let mut addresses = symbols
        .iter()
        .filter(|symbol| symbol.name == name)
        .map(|symbol| symbol.address);
    let address = addresses.next()?;
    // Static variables of several source files may have one name: which of them is meant is not said.
    if addresses.any(|other| other != address) {
        return None;
    }
    let offset = address
        .wrapping_add_signed(plus)
        .wrapping_sub(site.address)
        .wrapping_add(site.offset);
    (offset <= i64::MAX as u64).then(|| format!("@+{offset:#x}"))
}

fn integer_or_zero(text: &str) -> Option<i64> {
    if text.is_empty() { Some(0) } else { integer(text) }
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        None => i128::from(digits.parse::<u64>().ok()?),
    };
    // A constant with the highest bit set is written without a sign, too.
    i64::try_from(sign * value)
        .or_else(|_| u64::try_from(sign * value).map(u64::cast_signed))
        .ok()
}

struct Register {
    name: String,
    is_second_byte: bool,
}

/// A register of the assembler, whatever part of it is meant, as the kernel calls it.
fn register(operand: &str) -> Option<Register> {
    let name = operand.strip_prefix('%')?;
    if let Some(number) = name.strip_prefix('r') {
        let digits = number.trim_end_matches(['d', 'w', 'b', 'l']);
        if (8..=15).contains(&digits.parse::<u8>().unwrap_or(0)) {
            return Some(Register {
                name: format!("r{digits}"),
                is_second_byte: false,
            });
        }
    }
    let is_second_byte = matches!(name, "ah" | "bh" | "ch" | "dh");
    let kernel_name = match name {
        "al" | "ah" | "ax" | "eax" | "rax" => "ax",
        "bl" | "bh" | "bx" | "ebx" | "rbx" => "bx",
        "cl" | "ch" | "cx" | "ecx" | "rcx" => "cx",
        "dl" | "dh" | "dx" | "edx" | "rdx" => "dx",
        "sil" | "si" | "esi" | "rsi" => "si",
        "dil" | "di" | "edi" | "rdi" => "di",
        "bpl" | "bp" | "ebp" | "rbp" => "bp",
        "spl" | "sp" | "esp" | "rsp" => "sp",
        _ => return None,
    };
    Some(Register {
        name: kernel_name.into(),
        is_second_byte,
    })
}

#[cfg(test)]
mod tests {
    use super::super::elf::SymbolKind;
    use super::*;

    fn check(arguments: &str, expected: &[Option<&str>]) {
        let symbols = || {
            [("count", 0x4040), ("twice", 1), ("twice", 2)]
                .map(|(name, address)| Symbol {
                    name: name.into(),
                    address,
                    bytes: 4,
                    kind: SymbolKind::Data,
                })
                .to_vec()
        };
        let site = Site {
            address: 0x2100,
            offset: 0x1100,
            symbols: &symbols,
        };
        let words: Vec<Option<String>> = translate(arguments, &site).into_iter().map(Result::ok).collect();
        let words: Vec<Option<&str>> = words.iter().map(Option::as_deref).collect();
        assert_eq!(words, expected, "{arguments}");
    }

    #[test]
    fn registers_of_every_width_are_the_kernels() {
        check("-4@%edi 8@%rsi", &[Some("arg1=%di:s32"), Some("arg2=%si:u64")]);
        check(
            "1@%al 1@%ah -1@%ah",
            &[Some("arg1=%ax:u8"), Some("arg2=%ax:b8@8/16"), None],
        );
        check(
            "2@%r9w 4@%r10d 1@%r15b",
            &[Some("arg1=%r9:u16"), Some("arg2=%r10:u32"), Some("arg3=%r15:u8")],
        );
        check("8@%r16 8f@%xmm0 4@%eip", &[None, None, None]);
        check("%rax", &[Some("arg1=%ax:u64")]);
    }

    #[test]
    fn constants_keep_their_sign() {
        check(
            "-4@$-5 4@$7 8@$0x10",
            &[Some("arg1=\\-5:s32"), Some("arg2=\\7:u32"), Some("arg3=\\16:u64")],
        );
        check("8@$18446744073709551615 8@$x", &[Some("arg1=\\-1:u64"), None]);
    }

    #[test]
    fn memory_is_a_register_and_a_displacement() {
        check(
            "-4@-16(%rbp) 8@(%rax)",
            &[Some("arg1=-16(%bp):s32"), Some("arg2=+0(%ax):u64")],
        );
        check(
            "4@8(%rax,%rcx,4) 4@8(%rax, %rcx, 4) 4@%edx",
            &[None, None, Some("arg3=%dx:u32")],
        );
    }

    #[test]
    fn variables_are_found_from_the_probe() {
        check("4@count(%rip)", &[Some("arg1=@+0x3040:u32")]);
        check(
            "4@count+4(%rip) 4@count-0x8(%rip)",
            &[Some("arg1=@+0x3044:u32"), Some("arg2=@+0x3038:u32")],
        );
        check("4@count", &[Some("arg1=@+0x3040:u32")]);
        check("4@gone(%rip) 4@twice(%rip) 8@16(%rip)", &[None, None, None]);
    }

    #[test]
    fn no_argument_is_nothing() {
        check("", &[]);
        check(" ", &[]);
    }
}
