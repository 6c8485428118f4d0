// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of events in colours: times step back, names of events stand out, names of fields differ from values.

use anstyle::{AnsiColor, Style};

use crate::screen::{FAINT, STRONG};

const FIELD: Style = AnsiColor::Cyan.on_default();
const TEXT: Style = AnsiColor::Green.on_default();

/// Appends whole lines.
pub(super) fn paint(out: &mut Vec<u8>, lines: &[u8]) {
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        paint_line(out, line);
    }
}

fn paint_line(out: &mut Vec<u8>, line: &[u8]) {
    // `[time] (+delta) `; texts with brackets come later.
    let mut rest = line;
    let mut times = 0;
    for (open, close) in [(b'[', &b"] "[..]), (b'(', &b") "[..])] {
        if rest.first() == Some(&open)
            && let Some(end) = find(rest, close)
        {
            times += end + close.len();
            rest = &line[times..];
        }
    }
    styled(out, FAINT, &line[..times]);
    let name = find(rest, b": {").or_else(|| find(rest, b": \n")).unwrap_or(0);
    styled(out, STRONG, &rest[..name]);
    fields(out, &rest[name..]);
}

fn fields(out: &mut Vec<u8>, mut rest: &[u8]) {
    while let Some(&first) = rest.first() {
        if first == b'"' {
            let mut end = 1;
            while end < rest.len() && rest[end] != b'"' {
                end += if rest[end] == b'\\' { 2 } else { 1 };
            }
            let end = (end + 1).min(rest.len());
            styled(out, TEXT, &rest[..end]);
            rest = &rest[end..];
        } else if is_of_name(first) {
            let end = rest.iter().position(|byte| !is_of_name(*byte)).unwrap_or(rest.len());
            match rest[end..].starts_with(b" = ") {
                true => styled(out, FIELD, &rest[..end]),
                false => out.extend_from_slice(&rest[..end]),
            }
            rest = &rest[end..];
        } else {
            out.push(first);
            rest = &rest[1..];
        }
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.$[]`".contains(&byte) || byte >= 0x80
}

fn styled(out: &mut Vec<u8>, style: Style, text: &[u8]) {
    if !text.is_empty() {
        out.extend_from_slice(style.render().to_string().as_bytes());
        out.extend_from_slice(text);
        out.extend_from_slice(style.render_reset().to_string().as_bytes());
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_bytes;

    use super::*;

    #[test]
    fn colours_change_nothing_but_the_look() {
        let lines =
            b"[09:41:07.1] (+0.0) vm shop:order: { cpu_id = 1 }, { id = 42, item = \"a = \\\"b\\\" [x]\" }\nempty: \n";
        let mut out = vec![];
        paint(&mut out, lines);
        assert_eq!(strip_bytes(&out).into_vec(), lines);
        let shown = String::from_utf8(out).expect("UTF-8");
        assert!(
            shown.contains("\u{1b}[36mitem\u{1b}[0m = \u{1b}[32m\"a = \\\"b\\\" [x]\"\u{1b}[0m }"),
            "{shown:?}"
        );
        assert!(shown.contains("\u{1b}[1mvm shop:order\u{1b}[0m: {"), "{shown:?}");
        for broken in [&b"\"\\"[..], b"[", b"(\n", b"] : {", b"a = \"x"] {
            let mut out = vec![];
            paint(&mut out, broken);
            assert_eq!(strip_bytes(&out).into_vec(), broken);
        }
    }
}
