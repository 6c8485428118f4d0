// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which names a pattern means. pisted decides what is recorded; this is for what the command shows.

/// Whether `name` matches `pattern`, in which each `*` stands for any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(position) = name.find(part) else { return false };
        name = &name[position + part.len()..];
    }
    name.ends_with(end)
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
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
