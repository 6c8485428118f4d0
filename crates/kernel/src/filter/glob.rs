// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns of texts, so said that the kernel takes each for what it is.

/// `pattern` with a backslash before its first ordinary character.
///
/// The kernel has short cuts for patterns whose only `*` are at their ends, and each is wrong for some: it looks for the end of a text at
/// the end of its array, reads on behind a text, takes a digit in front for an index and `!` for a negation. A backslash anywhere makes it
/// match the whole pattern, which is right for all.
pub(super) fn in_kernel_words(pattern: &str) -> String {
    match pattern.char_indices().find(|&(_, c)| c != '*') {
        Some((position, c)) if !"[?\\".contains(c) => {
            let (stars, rest) = pattern.split_at(position);
            format!("{stars}\\{rest}")
        }
        _ => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ordinary_character_is_quoted() {
        for (pattern, expected) in [
            ("bash", r"\bash"),
            ("*bash", r"*\bash"),
            ("9p*", r"\9p*"),
            ("!x", r"\!x"),
            ("?x", "?x"),
            ("*", "*"),
            (r"\*x", r"\*x"),
            ("[a-c]*", "[a-c]*"),
            ("", ""),
        ] {
            assert_eq!(in_kernel_words(pattern), expected);
        }
    }
}
