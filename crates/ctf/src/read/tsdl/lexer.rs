// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text to tokens. Comments, white space and lines for a preprocessor (`#line`) are left out.

use super::{MetadataError, Position};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) position: Position,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word(String),
    /// A number without a sign.
    Number(u64),
    /// `"text"`, without the quotes and escapes.
    Text(String),
    /// `'c'`, its code.
    Character(u8),
    /// `{ } [ ] ( ) < > ; : , . = * + -`, `:=`, `...`, `->`
    Sign(&'static str),
    End,
}

impl Kind {
    /// For messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Number(number) => format!("`{number}`"),
            Kind::Text(text) => format!("{text:?}"),
            Kind::Character(code) => format!("the character {code}"),
            Kind::Sign(sign) => format!("`{sign}`"),
            Kind::End => "the end of the text".into(),
        }
    }
}

/// Longest first.
const SIGNS: [&str; 19] = [
    "...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", ".", "=", "*", "+", "-",
];

/// The tokens to the end, or to what is none, with what is wrong with it.
pub(super) fn tokens(text: &str) -> (Vec<Token>, Option<MetadataError>) {
    let mut lexer = Lexer {
        rest: text.as_bytes(),
        position: Position { line: 1, column: 1 },
    };
    let mut tokens = Vec::new();
    loop {
        let position = lexer.position;
        match lexer.token() {
            Ok(token) => tokens.push(token),
            Err(fault) => {
                let kind = Kind::End;
                tokens.push(Token { kind, position });
                return (tokens, Some(fault));
            }
        }
        if tokens.last().is_some_and(|token| token.kind == Kind::End) {
            return (tokens, None);
        }
    }
}

struct Lexer<'a> {
    rest: &'a [u8],
    position: Position,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn advance(&mut self, bytes: usize) {
        for &byte in &self.rest[..bytes] {
            if byte == b'\n' {
                self.position.line += 1;
                self.position.column = 1;
            } else {
                self.position.column += 1;
            }
        }
        self.rest = &self.rest[bytes..];
    }

    fn token(&mut self) -> Result<Token, MetadataError> {
        self.skip_blank()?;
        let position = self.position;
        let kind = self.next()?;
        Ok(Token { kind, position })
    }

    fn skip_blank(&mut self) -> Result<(), MetadataError> {
        loop {
            match self.peek() {
                Some(byte) if byte.is_ascii_whitespace() || byte == 0x0b || byte == 0 => self.advance(1),
                Some(b'#') => self.skip_line(),
                Some(b'/') if self.rest.starts_with(b"//") => self.skip_line(),
                Some(b'/') if self.rest.starts_with(b"/*") => {
                    let start = self.position;
                    let end = memchr::memmem::find(&self.rest[2..], b"*/");
                    let end = end.ok_or_else(|| start.error("the comment that begins here does not end"))?;
                    self.advance(end + 4);
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let end = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        self.advance(end);
    }

    fn next(&mut self) -> Result<Kind, MetadataError> {
        let Some(byte) = self.peek() else {
            return Ok(Kind::End);
        };
        if byte.is_ascii_digit() {
            return self.number();
        }
        if byte == b'"' || self.rest.starts_with(b"L\"") {
            self.advance(if byte == b'L' { 2 } else { 1 });
            let bytes = self.quoted(b'"')?;
            // As in C, a text ends at its first zero.
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            return Ok(Kind::Text(String::from_utf8_lossy(text).into_owned()));
        }
        if byte == b'\'' || self.rest.starts_with(b"L'") {
            let position = self.position;
            self.advance(if byte == b'L' { 2 } else { 1 });
            return match self.quoted(b'\'')?[..] {
                [code] => Ok(Kind::Character(code)),
                _ => Err(position.error("a character constant must have one character")),
            };
        }
        if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
            let end = self
                .rest
                .iter()
                .position(|byte| !is_word(byte))
                .unwrap_or(self.rest.len());
            let word = String::from_utf8_lossy(&self.rest[..end]).into_owned();
            self.advance(end);
            return Ok(Kind::Word(word));
        }
        let sign = SIGNS.iter().find(|sign| self.rest.starts_with(sign.as_bytes()));
        match sign {
            Some(sign) => {
                self.advance(sign.len());
                Ok(Kind::Sign(sign))
            }
            None => Err(self.position.error(format!("unexpected {:?}", char::from(byte)))),
        }
    }

    /// Decimal, `0x` hexadecimal, `0b` binary, `0` octal; with `u` and `l` behind, which say nothing here.
    fn number(&mut self) -> Result<Kind, MetadataError> {
        let position = self.position;
        let end = self
            .rest
            .iter()
            .position(|byte| !byte.is_ascii_alphanumeric())
            .unwrap_or(self.rest.len());
        let word = String::from_utf8_lossy(&self.rest[..end]).to_ascii_lowercase();
        self.advance(end);
        let (digits, radix) = match word.as_bytes() {
            [b'0', b'x', ..] => (&word[2..], 16),
            [b'0', b'b', ..] => (&word[2..], 2),
            [b'0', _, ..] => (&word[1..], 8),
            _ => (&word[..], 10),
        };
        let digits = digits.trim_end_matches(['u', 'l']);
        // `0u` is octal without a digit.
        let digits = if digits.is_empty() && radix == 8 { "0" } else { digits };
        u64::from_str_radix(digits, radix)
            .map(Kind::Number)
            .map_err(|_| position.error(format!("`{word}` is not a number of at most 64 bits")))
    }

    /// What stands before the closing quote, escapes replaced.
    fn quoted(&mut self, quote: u8) -> Result<Vec<u8>, MetadataError> {
        let start = self.position;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None | Some(b'\n') => return Err(start.error("the text that begins here does not end on its line")),
                Some(byte) if byte == quote => {
                    self.advance(1);
                    return Ok(bytes);
                }
                Some(b'\\') => {
                    self.advance(1);
                    self.escape(&mut bytes)?;
                }
                Some(byte) => {
                    bytes.push(byte);
                    self.advance(1);
                }
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), MetadataError> {
        let position = self.position;
        let byte = self
            .peek()
            .ok_or_else(|| position.error("the text ends after a backslash"))?;
        let simple = match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'\\' | b'"' | b'\'' | b'?' => byte,
            b'x' => {
                self.advance(1);
                return self.code(bytes, 16, 3);
            }
            b'0'..=b'7' => return self.code(bytes, 8, 3),
            _ => return Err(position.error(format!("`\\{}` is not an escape sequence", char::from(byte)))),
        };
        self.advance(1);
        bytes.push(simple);
        Ok(())
    }

    fn code(&mut self, bytes: &mut Vec<u8>, radix: u32, digits_max: usize) -> Result<(), MetadataError> {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
        let count = self
            .rest
            .iter()
            .take(digits_max)
            .take_while(|byte| is_digit(byte))
            .count();
        // A digit that would make it more than a byte is the text's.
        let code = (1..=count).rev().find_map(|count| {
            let digits = String::from_utf8_lossy(&self.rest[..count]);
            Some((u8::from_str_radix(&digits, radix).ok()?, count))
        });
        let (code, count) =
            code.ok_or_else(|| self.position.error("the value of the escape sequence is not a byte"))?;
        self.advance(count);
        bytes.push(code);
        Ok(())
    }
}
