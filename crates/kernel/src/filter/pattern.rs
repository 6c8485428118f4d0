// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns of strings, so written that the kernel takes each for what it is.

use piste_filter::Pattern;
use piste_filter::pattern::One;

/// Characters that a pattern of the kernel has a use for.
const SIGNS: [u8; 4] = [b'*', b'?', b'[', b'\\'];

/// `pattern` in the kernel's words, with a backslash before its first ordinary character; `None` when the kernel has no words for it.
///
/// The kernel has short cuts for patterns whose only `*` are at their ends, and each is wrong for some: it looks for the end of a text at
/// the end of its array, reads on behind a text, takes a digit in front for an index and `!` for a negation. A backslash anywhere makes it
/// match the whole pattern, which is right for all.
pub(super) fn in_kernel_words(pattern: &Pattern) -> Option<String> {
    let mut words = Vec::new();
    let mut is_quoted = false;
    for (index, part) in pattern.parts().enumerate() {
        if index > 0 {
            words.push(b'*');
        }
        for one in part {
            match one {
                One::Byte(byte) if is_quoted && !SIGNS.contains(&byte) => words.push(byte),
                One::Byte(byte) => words.extend([b'\\', byte]),
                One::Any => words.push(b'?'),
                One::In(set) => words.extend(in_brackets(set, "")?),
                One::NotIn(set) => words.extend(in_brackets(set, "!")?),
            }
            is_quoted = true;
        }
    }
    String::from_utf8(words).ok()
}

/// A set of characters. To the kernel a `]` in front is a character, so are a `-` at the end and a `!` that is not in front.
fn in_brackets(set: u128, negation: &str) -> Option<Vec<u8>> {
    let has = |byte: u8| set & (1 << byte) != 0;
    if (0..128).any(|byte: u8| has(byte) && byte.is_ascii_control()) {
        return None;
    }
    let is_plain = |byte: u8| byte < 128 && has(byte) && !b"]!-".contains(&byte);
    let mut inside = Vec::new();
    inside.extend(has(b']').then_some(b']'));
    let mut byte = 0;
    while byte < 128 {
        let first = byte;
        while is_plain(byte) {
            byte += 1;
        }
        match byte - first {
            0 => {}
            1 | 2 => inside.extend(first..byte),
            _ => inside.extend([first, b'-', byte - 1]),
        }
        byte += 1;
    }
    let signs = [b'!', b'-'].into_iter().filter(|sign| has(*sign));
    match (inside.is_empty() && negation.is_empty(), has(b'!'), has(b'-')) {
        (true, true, true) => inside.extend(b"-!"),
        // Alone it would be the negation.
        (true, true, false) => return Some(b"\\!".to_vec()),
        _ => inside.extend(signs),
    }
    Some([b"[", negation.as_bytes(), &inside, b"]"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_each_character_for_what_it_is() {
        for (pattern, expected) in [
            ("bash", Some(r"\bash")),
            ("*bash", Some(r"*\bash")),
            ("9p*", Some(r"\9p*")),
            ("!x", Some(r"\!x")),
            ("?x", Some("?x")),
            ("*", Some("*")),
            (r"\*x", Some(r"\*x")),
            (r"x\*", Some(r"\x\*")),
            ("[a-c]*", Some("[a-c]*")),
            ("[!a-z0]", Some("[!0a-z]")),
            ("[]a-]", Some("[]a-]")),
            ("[X-b]", Some("[]X-\\^-b]")),
            (r"[\!]x", Some(r"\!x")),
            (r"[\!a]", Some("[a!]")),
            (r"[\!-]", Some("[-!]")),
            ("[!!-]", Some("[!!-]")),
            (r"[\n]", None),
            ("", Some("")),
        ] {
            let parsed = Pattern::parse(pattern, 0).expect(pattern);
            assert_eq!(in_kernel_words(&parsed).as_deref(), expected, "{pattern}");
        }
    }
}
