// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which names a pattern means.

/// Whether `name` is like `pattern`, in which each `*` stands for any text, also none.
///
/// ```
/// assert!(piste_patterns::matches("shop:*", "shop:order"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    matches_bytes(pattern.as_bytes(), name.as_bytes())
}

/// The same of a name that may be no text.
pub fn matches_bytes(pattern: &[u8], name: &[u8]) -> bool {
    let Some(first) = memchr::memchr(b'*', pattern) else {
        return pattern == name;
    };
    let last = memchr::memrchr(b'*', pattern).unwrap_or(first);
    let Some(mut name) = name.strip_prefix(&pattern[..first]) else {
        return false;
    };
    let middle = pattern.get(first + 1..last).unwrap_or_default();
    for part in middle.split(|byte| *byte == b'*') {
        let Some(position) = memchr::memmem::find(name, part) else {
            return false;
        };
        name = &name[position + part.len()..];
    }
    name.ends_with(&pattern[last + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_anywhere() {
        for (pattern, name, expected) in [
            ("*", "shop:order", true),
            ("shop:*", "shop:order", true),
            ("*:order", "shop:order", true),
            ("*op:*der", "shop:order", true),
            ("s*o*o*r", "shop:order", true),
            ("shop:order", "shop:order", true),
            ("shop:order*", "shop:order", true),
            ("shop", "shop:order", false),
            ("*x*", "shop:order", false),
            ("shop:order*order", "shop:order", false),
            ("*r*r*r", "shop:order", false),
            ("shop:*", "shopper:order", false),
            ("**", "", true),
            ("*ab*ab", "abcabab", true),
            ("*ab*abc", "abcabab", false),
            ("ab*ba", "aba", false),
            ("a*b*c*d", "a__b__c__", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_exponential_time() {
        assert!(!matches(&"*a".repeat(250), &"a".repeat(249)));
        assert!(!matches(&format!("{}b", "*a".repeat(100)), &"a".repeat(10_000)));
    }
}
