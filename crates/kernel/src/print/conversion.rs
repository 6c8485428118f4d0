// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversions of a printf format, as far as they tell how an integer is shown.

use piste_ctf::Base;

/// The base that each argument is shown in, in the order of the arguments; `None` for one that is not shown as a number.
pub(super) fn bases(format: &str) -> Vec<Option<Base>> {
    let mut bases = Vec::new();
    let mut rest = format;
    while let Some((_, conversion)) = rest.split_once('%') {
        let end = conversion.find(|c: char| !"-+ #0123456789.*hlLqjzt".contains(c));
        let (modifiers, letter) = conversion.split_at(end.unwrap_or(conversion.len()));
        // A width or precision may be an argument of its own.
        bases.extend(modifiers.matches('*').map(|_| None));
        let mut letters = letter.chars();
        match letters.next() {
            Some('%') | None => {}
            Some(letter) => bases.push(base(letter, letters.as_str())),
        }
        rest = letters.as_str();
    }
    bases
}

/// Addresses are hex. What the kernel says behind `%p` tells what is at the address: IPv4 addresses are shown in decimal.
fn base(letter: char, extension: &str) -> Option<Base> {
    match letter {
        'd' | 'i' | 'u' => Some(Base::Decimal),
        'x' | 'X' => Some(Base::Hex),
        'o' => Some(Base::Octal),
        'p' if extension.starts_with("I4") || extension.starts_with("i4") => Some(Base::Decimal),
        'p' => Some(Base::Hex),
        _ => None,
    }
}
