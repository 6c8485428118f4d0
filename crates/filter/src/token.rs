// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter's text, cut into words, numbers, strings and signs.

use crate::FilterError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    /// `prev_tid`, or any name between backquotes.
    Word(&'t str),
    /// `$pid`
    Variable(&'t str),
    Integer(i128),
    Float(f64),
    /// What is between the quotes, as it is written.
    Quoted(&'t str),
    Sign(&'static str),
    End,
}

/// The longest come first.
const SIGNS: [&str; 23] = [
    "&&", "||", "==", "!=", "<=", ">=", "=~", "!~", "<<", ">>", "<", ">", "!", "(", ")", "[", "]", ".", "&", "|", "^",
    "-", "~",
];

/// What numbers may end with.
const UNITS: [(&str, i128); 9] = [
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// The tokens with their positions; the last is the end.
pub(crate) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, FilterError> {
    let mut tokens = Vec::new();
    let mut position = 0;
    loop {
        let rest = text[position..].trim_start();
        position = text.len() - rest.len();
        let (token, bytes) = token(rest).map_err(|error| error.behind(position))?;
        tokens.push((position, token));
        if token == Token::End {
            return Ok(tokens);
        }
        position += bytes;
    }
}

/// What a text begins with, and its length in bytes.
fn token(rest: &str) -> Result<(Token<'_>, usize), FilterError> {
    Ok(match rest.chars().next() {
        None => (Token::End, 0),
        Some('"' | '\'') => quoted(rest)?,
        Some('`') => match rest[1..].split_once('`') {
            Some((name, _)) if !name.is_empty() => (Token::Word(name), name.len() + 2),
            _ => return Err(FilterError::at(0, "expected a name and a closing backquote")),
        },
        Some('$') => {
            let name = word(&rest[1..]);
            (Token::Variable(name), 1 + name.len())
        }
        Some(first) if first.is_ascii_digit() => number(rest)?,
        Some(first) if first.is_alphabetic() || first == '_' => {
            let name = word(rest);
            (Token::Word(name), name.len())
        }
        Some(first) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => (Token::Sign(sign), sign.len()),
            None => return Err(FilterError::at(0, unknown_sign(first))),
        },
    })
}

fn unknown_sign(first: char) -> String {
    match first {
        '=' => "`=` is not a comparison; write `==`".into(),
        _ => format!("unexpected {first:?}"),
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_');
    &text[..end.unwrap_or(text.len())]
}

/// `"a\"b"` or `'a'`
fn quoted(text: &str) -> Result<(Token<'_>, usize), FilterError> {
    let quote = text.as_bytes()[0];
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((position, byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == quote {
            return Ok((Token::Quoted(&text[1..position]), position + 1));
        }
    }
    Err(FilterError::at(0, "the string that begins here has no closing quote"))
}

/// What is between quotes, without its escapes; `position` is where it begins.
pub(crate) fn unescaped(content: &str, position: usize) -> Result<String, FilterError> {
    let mut text = String::with_capacity(content.len());
    let mut characters = content.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                text.push(escaped(content, at).map_err(|error| error.behind(position))?.into());
                characters.next();
            }
            character => text.push(character),
        }
    }
    Ok(text)
}

/// What the backslash at a byte of a text and the character behind it stand for: a byte of ASCII.
pub(crate) fn escaped(text: &str, at: usize) -> Result<u8, FilterError> {
    match text.as_bytes().get(at + 1) {
        Some(b'n') => Ok(b'\n'),
        Some(b't') => Ok(b'\t'),
        Some(b'r') => Ok(b'\r'),
        Some(b'0') => Ok(0),
        Some(byte) if byte.is_ascii_punctuation() => Ok(*byte),
        _ => Err(FilterError::at(
            at,
            "after a backslash, expected a punctuation mark or one of n, t, r and 0",
        )),
    }
}

/// `10`, `0x1f`, `0o17`, `0b1`, `1.5e3`, `4K`, `10ms`
fn number(text: &str) -> Result<(Token<'_>, usize), FilterError> {
    let too_large = || FilterError::at(0, "the number is too large");
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let digits = word(digits);
            return match i128::from_str_radix(digits, radix) {
                Ok(number) => Ok((Token::Integer(number), prefix.len() + digits.len())),
                Err(_) if digits.is_empty() || digits.chars().any(|digit| !digit.is_digit(radix)) => {
                    let reason = format!("after {prefix}, only digits of base {radix} are allowed");
                    Err(FilterError::at(0, reason))
                }
                Err(_) => Err(too_large()),
            };
        }
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut length = whole;
    if text[length..].starts_with('.') {
        length += 1 + digits(&text[length + 1..]);
    }
    if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        if digits(&exponent[sign..]) > 0 {
            length += 1 + sign + digits(&exponent[sign..]);
        }
    }
    let unit = word(&text[length..]);
    let factor = match UNITS.iter().find(|(known, _)| *known == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => {
            return Err(FilterError::at(
                length,
                "after a number, only K, M or G (powers of 1024) or ns, us, ms or s (nanoseconds) is allowed",
            ));
        }
    };
    let token = if length == whole {
        // Numbers of C with a 0 first are octal.
        let is_octal = whole > 1 && text.starts_with('0') && unit.is_empty();
        let number = i128::from_str_radix(&text[..whole], if is_octal { 8 } else { 10 });
        let number = number.map_err(|_| match is_octal {
            true => FilterError::at(
                0,
                "a number that begins with 0 is octal; the digits 8 and 9 are not allowed",
            ),
            false => too_large(),
        })?;
        Token::Integer(number.checked_mul(factor).ok_or_else(too_large)?)
    } else {
        let number: f64 = text[..length].parse().map_err(|_| FilterError::at(0, "not a number"))?;
        Token::Float(number * factor as f64)
    };
    Ok((token, length + unit.len()))
}

impl FilterError {
    pub(crate) fn behind(mut self, bytes: usize) -> FilterError {
        self.position += bytes;
        self
    }
}
