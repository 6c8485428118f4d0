// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns of strings: `*` stands for any text, `?` for one byte, `[a-z]` for one of these characters, `[!a-z]` for any other byte. A
//! backslash takes the special meaning from the character behind it.

use memchr::memmem;

use crate::FilterError;
use crate::token::escaped;

/// A pattern, ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// As it was written, between the quotes.
    text: Box<str>,
    /// What is between the stars: one part more than there are stars in a row.
    parts: Vec<Part>,
}

/// A part of a pattern without stars.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// These bytes.
    Bytes(Box<[u8]>),
    /// One byte for each.
    Ones(Box<[One]>),
}

/// What one byte may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum One {
    /// This byte.
    Byte(u8),
    /// Any byte.
    Any,
    /// One of these characters of ASCII, by their bits.
    In(u128),
    /// Any byte but these characters.
    NotIn(u128),
}

impl Pattern {
    /// A pattern from what stands between quotes; `position` is where it begins in the filter.
    ///
    /// # Errors
    /// Where and why it is not one.
    pub fn parse(text: &str, position: usize) -> Result<Pattern, FilterError> {
        let mut parts = vec![Vec::new()];
        let mut was_star = false;
        let mut at = 0;
        while let Some(&byte) = text.as_bytes().get(at) {
            let is_star = byte == b'*';
            match (byte, parts.last_mut()) {
                // Stars in a row are as good as one.
                (b'*', _) if !was_star => parts.push(Vec::new()),
                (b'*', _) | (_, None) => {}
                (b'?', Some(part)) => part.push(One::Any),
                (b'[', Some(part)) => {
                    let (one, bytes) = set(text, at).map_err(|error| error.behind(position))?;
                    part.push(one);
                    at += bytes - 1;
                }
                (b'\\', Some(part)) => {
                    part.push(One::Byte(escaped(text, at).map_err(|error| error.behind(position))?));
                    at += 1;
                }
                (byte, Some(part)) => part.push(One::Byte(byte)),
            }
            was_star = is_star;
            at += 1;
        }
        Ok(Pattern {
            text: text.into(),
            parts: parts.into_iter().map(Part::new).collect(),
        })
    }

    /// As it was written, between the quotes.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is between the stars.
    pub fn parts(&self) -> impl Iterator<Item = Vec<One>> {
        self.parts.iter().map(|part| match part {
            Part::Bytes(bytes) => bytes.iter().copied().map(One::Byte).collect(),
            Part::Ones(ones) => ones.to_vec(),
        })
    }

    /// Whether a string is like it.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return false;
        };
        if self.parts.len() == 1 {
            return first.length() == text.len() && first.begins(text);
        }
        if first.length() + last.length() > text.len() || !first.begins(text) {
            return false;
        }
        let (before, end) = text.split_at(text.len() - last.length());
        let mut rest = &before[first.length()..];
        for part in &self.parts[1..self.parts.len() - 1] {
            // The first place is the best: it leaves the most for those behind.
            let Some(position) = part.find(rest) else { return false };
            rest = &rest[position + part.length()..];
        }
        last.begins(end)
    }
}

impl Part {
    fn new(ones: Vec<One>) -> Part {
        let bytes = ones.iter().map(|one| match one {
            One::Byte(byte) => Some(*byte),
            _ => None,
        });
        match bytes.collect::<Option<Vec<u8>>>() {
            Some(bytes) => Part::Bytes(bytes.into()),
            None => Part::Ones(ones.into()),
        }
    }

    fn length(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Ones(ones) => ones.len(),
        }
    }

    /// Whether a text that is long enough begins with it.
    fn begins(&self, text: &[u8]) -> bool {
        match self {
            Part::Bytes(bytes) => text.starts_with(bytes),
            Part::Ones(ones) => text.len() >= ones.len() && ones.iter().zip(text).all(|(one, byte)| one.is(*byte)),
        }
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        match self {
            Part::Bytes(bytes) => memmem::find(text, bytes),
            Part::Ones(ones) => text.windows(ones.len()).position(|window| self.begins(window)),
        }
    }
}

impl One {
    fn is(self, byte: u8) -> bool {
        let is_in = |set: u128| byte < 128 && set & (1 << byte) != 0;
        match self {
            One::Byte(known) => known == byte,
            One::Any => true,
            One::In(set) => is_in(set),
            One::NotIn(set) => !is_in(set),
        }
    }
}

/// `[abc]`, `[a-z]`, `[!a-z]`, `[]x]`: what it stands for, and its length in bytes. It begins at byte `start` of the text.
fn set(text: &str, start: usize) -> Result<(One, usize), FilterError> {
    let wrong = |at: usize, reason: &str| FilterError::at(at, reason);
    let bytes = text.as_bytes();
    let is_negated = bytes.get(start + 1) == Some(&b'!');
    let first = start + 1 + usize::from(is_negated);
    if bytes.get(first) == Some(&b'^') && !is_negated {
        return Err(wrong(first, "write `[!...]` for any other character, or `\\^` for `^`"));
    }
    let (mut set, mut at) = (0_u128, first);
    // One character, and how many bytes it takes.
    let character = |at: usize| match bytes.get(at) {
        None => Err(wrong(start, "this `[` has no `]`; write `\\[` for the character")),
        Some(b'\\') => escaped(text, at).map(|byte| (byte, 2)),
        Some(byte) if byte.is_ascii() => Ok((*byte, 1)),
        Some(_) => Err(wrong(at, "between `[` and `]`, only characters of ASCII are allowed")),
    };
    loop {
        let (low, length) = character(at)?;
        if low == b']' && length == 1 && at > first {
            break;
        }
        at += length;
        let is_range = bytes.get(at) == Some(&b'-') && !matches!(bytes.get(at + 1), None | Some(b']'));
        let high = if is_range {
            let (high, length) = character(at + 1)?;
            at += 1 + length;
            high
        } else {
            low
        };
        if high < low {
            return Err(wrong(at - 1, "the range ends before it begins"));
        }
        (low..=high).for_each(|byte| set |= 1 << byte);
    }
    let one = if is_negated { One::NotIn(set) } else { One::In(set) };
    Ok((one, at + 1 - start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_strings() {
        for (pattern, text, expected) in [
            ("*", "shop:order", true),
            ("", "", true),
            ("", "a", false),
            ("shop:*", "shop:order", true),
            ("*op:*der", "shop:order", true),
            ("s*o*o*r", "shop:order", true),
            ("shop", "shop:order", false),
            ("*r*r*r", "shop:order", false),
            ("shop:order*order", "shop:order", false),
            ("**", "", true),
            ("a**b", "ab", true),
            ("*ab*ab", "abcabab", true),
            ("ab*ba", "aba", false),
            ("k?orker", "kworker", true),
            ("k?orker", "korker", false),
            ("?", "", false),
            ("*?", "ab", true),
            ("*a?c*e", "xxabcde", true),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[]x]", "]", true),
            ("[!]x]", "]", false),
            ("[a-]", "-", true),
            (r"[\]a]*", "a]", true),
            (r"\*x", "*x", true),
            (r"\*x", "ax", false),
            (r"a\nb", "a\nb", true),
            ("*[0-9]*[0-9]", "cpu1/12", true),
        ] {
            let parsed = Pattern::parse(pattern, 0).expect(pattern);
            assert_eq!(parsed.matches(text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(Pattern::parse("[!a]", 0).expect("a pattern").matches(&[0xff]));
    }

    #[test]
    fn what_is_not_a_pattern_says_where() {
        for (pattern, position) in [
            ("a[b", 1),
            ("[]", 0),
            ("a\\", 1),
            ("[é]", 1),
            ("[z-a]", 3),
            ("\\q", 0),
            ("[^a]", 1),
        ] {
            let error = Pattern::parse(pattern, 10).expect_err(pattern);
            assert_eq!(error.position, 10 + position, "{pattern}: {error}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_exponential_time() {
        let is_like =
            |pattern: &str, text: &str| Pattern::parse(pattern, 0).expect("a pattern").matches(text.as_bytes());
        assert!(!is_like(&"*a".repeat(250), &"a".repeat(249)));
        assert!(!is_like(&format!("{}b", "*a?".repeat(100)), &"a".repeat(10_000)));
    }
}
