// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a print format.

/// A word of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// What stands between two quotes, as it was written.
    Text(&'a str),
    /// An integer, and what is written like one.
    Number(u64),
    /// A name of anything.
    Name(&'a str),
    /// An operator or separator. Of those with two characters only `<<`, `>>`, `->`, `&&` and `||` are kept together.
    Sign(&'a str),
}

/// The words of `text`. Text without a closing quote goes on to the end.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, bytes) = match first {
            '"' => quoted(rest, '"'),
            '\'' => quoted(rest, '\''),
            '0'..='9' => number(rest),
            'A'..='Z' | 'a'..='z' | '_' => {
                let (name, _) = rest.split_at(word_bytes(rest));
                (Token::Name(name), name.len())
            }
            _ => {
                const DOUBLE: [&str; 5] = ["<<", ">>", "->", "&&", "||"];
                let is_double = DOUBLE.iter().any(|sign| rest.starts_with(sign));
                let bytes = if is_double { 2 } else { first.len_utf8() };
                (Token::Sign(&rest[..bytes]), bytes)
            }
        };
        tokens.push(token);
        rest = rest[bytes..].trim_start();
    }
    tokens
}

fn quoted(rest: &str, quote: char) -> (Token<'_>, usize) {
    let inner = &rest[1..];
    let mut is_escaped = false;
    let end = inner.char_indices().find(|(_, c)| {
        let is_end = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    let inner_bytes = end.map_or(inner.len(), |(at, _)| at);
    let token = match quote {
        '"' => Token::Text(&inner[..inner_bytes]),
        _ => Token::Sign("'"), // No list of names has a character.
    };
    (token, rest.len().min(inner_bytes + 2))
}

fn number(rest: &str) -> (Token<'_>, usize) {
    let (word, _) = rest.split_at(word_bytes(rest));
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    (value.map_or(Token::Name(word), Token::Number), word.len())
}

fn word_bytes(rest: &str) -> usize {
    rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len())
}

/// What stands between the bracket that `tokens` start with and its partner.
pub(super) fn inside<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<&'t [Token<'a>]> {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        depth += depth_change(token);
        if depth <= 0 {
            return (depth == 0 && index > 0).then(|| &tokens[1..index]);
        }
    }
    None
}

/// What stands between the `separator`s that are in no brackets.
pub(super) fn parts<'t, 'a>(tokens: &'t [Token<'a>], separator: &'t str) -> impl Iterator<Item = &'t [Token<'a>]> {
    let mut depth = 0;
    tokens.split(move |token| {
        depth += depth_change(token);
        depth == 0 && *token == Token::Sign(separator)
    })
}

fn depth_change(token: &Token) -> i32 {
    match token {
        Token::Sign("(" | "[" | "{") => 1,
        Token::Sign(")" | "]" | "}") => -1,
        _ => 0,
    }
}

/// Whether these words are a type: `unsigned long`, `void *`, `gfp_t`. A lone name of another form may be an enumerator.
pub(super) fn is_type(tokens: &[Token]) -> bool {
    const WORDS: [&str; 12] = [
        "int", "long", "short", "char", "unsigned", "signed", "void", "bool", "u8", "u16", "u32", "u64",
    ];
    let is_word = |word: &str| WORDS.contains(&word) || word.starts_with("__") || word.ends_with("_t");
    match tokens {
        [Token::Name("const" | "enum" | "struct" | "union"), Token::Name(_), ..] => true,
        [Token::Name(_), rest @ .., Token::Sign("*")] => rest
            .iter()
            .all(|token| matches!(token, Token::Name(_) | Token::Sign("*"))),
        [_, ..] => tokens
            .iter()
            .all(|token| matches!(token, Token::Name(word) if is_word(word))),
        [] => false,
    }
}

/// A text of C as it is meant. An escape that is not known stands for the character behind it.
pub(super) fn unescaped(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once('\\') {
        plain += before;
        let digits = after
            .bytes()
            .take(3)
            .take_while(|byte| matches!(byte, b'0'..=b'7'))
            .count();
        if digits > 0 {
            let code = u32::from_str_radix(&after[..digits], 8).expect("octal digits");
            plain.extend(char::from_u32(code));
            rest = &after[digits..];
            continue;
        }
        let mut characters = after.chars();
        plain.extend(characters.next().map(|c| match c {
            'n' => '\n',
            't' => '\t',
            c => c,
        }));
        rest = characters.as_str();
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_c_are_told_apart() {
        use Token::{Name, Number, Sign, Text};
        assert_eq!(
            tokens(r#" "a\"b" REC->x0 0x1fUL<<010 18446744073709551616 'q'&&"open"#),
            [
                Text(r#"a\"b"#),
                Name("REC"),
                Sign("->"),
                Name("x0"),
                Number(31),
                Sign("<<"),
                Number(8),
                Name("18446744073709551616"),
                Sign("'"),
                Sign("&&"),
                Text("open"),
            ]
        );
    }

    #[test]
    fn escapes_are_what_they_mean() {
        assert_eq!(unescaped(r#"a\n\"\\\0501\x\"#), "a\n\"\\(1x");
    }
}
