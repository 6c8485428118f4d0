// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter's text, cut into words, numbers, texts and signs.

use super::FilterError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// `prev_tid`, or any name between backquotes.
    Word(Box<str>),
    /// `$pid`
    Variable(Box<str>),
    Integer(i128),
    Float(f64),
    Text(Box<[u8]>),
    Sign(&'static str),
    End,
}

/// The longest come first.
const SIGNS: [&str; 18] = [
    "&&", "||", "==", "!=", "<=", ">=", "=~", "!~", "<", ">", "!", "(", ")", "[", "]", ".", "&", "-",
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

/// The tokens with their places; the last is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, FilterError> {
    let mut tokens = Vec::new();
    let mut position = 0;
    loop {
        let rest = &text[position..];
        let rest = rest.trim_start();
        position = text.len() - rest.len();
        let (token, bytes) = match rest.chars().next() {
            None => {
                tokens.push((position, Token::End));
                return Ok(tokens);
            }
            Some('"' | '\'') => quoted(rest).map_err(|error| error.behind(position))?,
            Some('`') => match rest[1..].split_once('`') {
                Some((name, _)) if !name.is_empty() => (Token::Word(name.into()), name.len() + 2),
                _ => return Err(wrong(position, "expected a name and a closing backquote")),
            },
            Some('$') => {
                let name = word(&rest[1..]);
                (Token::Variable(name.into()), 1 + name.len())
            }
            Some(first) if first.is_ascii_digit() => number(rest).map_err(|error| error.behind(position))?,
            Some(first) if first.is_alphabetic() || first == '_' => {
                let name = word(rest);
                (Token::Word(name.into()), name.len())
            }
            Some(first) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None => return Err(wrong(position, &unknown_sign(first))),
            },
        };
        tokens.push((position, token));
        position += bytes;
    }
}

fn unknown_sign(first: char) -> String {
    match first {
        '=' => "`=` is not a comparison; write `==`".into(),
        '|' => "`|` is not an operator; write `||`".into(),
        _ => format!("unexpected {first:?}"),
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_');
    &text[..end.unwrap_or(text.len())]
}

/// `"a\"b"` or `'a'`
fn quoted(text: &str) -> Result<(Token, usize), FilterError> {
    let quote = text.as_bytes()[0];
    let mut value = Vec::new();
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((position, byte)) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some((_, b'n')) => value.push(b'\n'),
                Some((_, b't')) => value.push(b'\t'),
                Some((_, b'r')) => value.push(b'\r'),
                Some((_, b'0')) => value.push(0),
                Some((_, escaped)) if escaped.is_ascii_punctuation() => value.push(escaped),
                Some(_) => {
                    return Err(wrong(
                        position,
                        "after a backslash, expected a punctuation mark or one of n, t, r and 0",
                    ));
                }
                None => break,
            },
            byte if byte == quote => return Ok((Token::Text(value.into()), position + 1)),
            byte => value.push(byte),
        }
    }
    Err(wrong(0, "the text that begins here has no closing quote"))
}

/// `10`, `0x1f`, `0o17`, `0b1`, `1.5e3`, `4K`, `10ms`
fn number(text: &str) -> Result<(Token, usize), FilterError> {
    let too_large = || wrong(0, "the number is too large");
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let digits = word(digits);
            return match i128::from_str_radix(digits, radix) {
                Ok(number) => Ok((Token::Integer(number), prefix.len() + digits.len())),
                Err(_) if digits.is_empty() || digits.chars().any(|digit| !digit.is_digit(radix)) => Err(wrong(
                    0,
                    &format!("after {prefix}, only digits of base {radix} are allowed"),
                )),
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
            return Err(wrong(
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
            true => wrong(
                0,
                "a number that begins with 0 is octal; the digits 8 and 9 are not allowed",
            ),
            false => too_large(),
        })?;
        Token::Integer(number.checked_mul(factor).ok_or_else(too_large)?)
    } else {
        let number: f64 = text[..length].parse().map_err(|_| wrong(0, "not a number"))?;
        Token::Float(number * factor as f64)
    };
    Ok((token, length + unit.len()))
}

pub(super) fn wrong(position: usize, reason: &str) -> FilterError {
    FilterError {
        position,
        reason: reason.into(),
    }
}

impl FilterError {
    fn behind(mut self, bytes: usize) -> FilterError {
        self.position += bytes;
        self
    }
}
