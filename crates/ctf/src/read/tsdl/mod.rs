// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSDL, the metadata language of CTF 1.8 (specification: diamon.org/ctf, version 1.8.3, sections 6 and 7, appendix C).
//!
//! ```text
//!   text --lexer--> tokens --parser--> syntax --types, blocks--> Schema
//! ```
//!
//! The text is a tracer's, and may be anything: what is wrong is an error with line and column.

mod blocks;
mod clocks;
mod lexer;
mod parser;
mod scopes;
mod syntax;
mod types;

use super::metadata::packets;
use super::schema::{ByteOrder, Schema};

/// Why metadata cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct MetadataError {
    /// From 1.
    pub line: u32,
    /// Bytes from 1.
    pub column: u32,
    /// A sentence.
    pub what: String,
}

/// Understands metadata: plain text (with or without the first line `/* CTF 1.8 */`), or packets of it.
///
/// # Errors
/// What is wrong first.
pub fn parse(metadata: &[u8]) -> Result<Schema, MetadataError> {
    let start = Position { line: 1, column: 1 };
    let (content, native) = packets::content(metadata).map_err(|error| start.error(error.to_string()))?;
    let (schema, faults) = salvage_text(&String::from_utf8_lossy(&content), native)?;
    faults.into_iter().next().map_or(Ok(schema), Err)
}

/// The same of text that was in packets of the byte order `native`: what its whole and sound blocks say, and what is wrong with others.
///
/// # Errors
/// What is wrong where everything depends on it: in the trace block, or with a clock.
pub(super) fn salvage_text(
    text: &str,
    native: Option<ByteOrder>,
) -> Result<(Schema, Vec<MetadataError>), MetadataError> {
    let start = Position { line: 1, column: 1 };
    if let Some(version) = version(text).filter(|version| *version != "1.8") {
        return Err(start.error(format!("CTF {version} is not CTF 1.8")));
    }
    let (tokens, no_token) = lexer::tokens(text);
    let (statements, no_statement) = parser::parse(tokens);
    if statements.is_empty() && no_token.is_none() && no_statement.is_none() {
        return Err(start.error("the metadata is empty"));
    }
    // The text ends for the parser where the lexer has stopped.
    let mut faults = Vec::from_iter(no_token.or(no_statement));
    let built = blocks::schema(&statements, native, &mut faults);
    match (built, faults.is_empty()) {
        (Ok(schema), _) => Ok((schema, faults)),
        (Err(fault), true) => Err(fault),
        (Err(_), false) => Err(faults.swap_remove(0)),
    }
}

/// Of a text that begins with `/* CTF 1.8 */`, as most do.
fn version(text: &str) -> Option<&str> {
    let behind = text.strip_prefix("/* CTF ")?;
    behind
        .split(|letter: char| letter == '*' || letter.is_whitespace())
        .next()
}

/// Where something stands in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    line: u32,
    column: u32,
}

impl Position {
    fn error(self, what: impl Into<String>) -> MetadataError {
        MetadataError {
            line: self.line,
            column: self.column,
            what: what.into(),
        }
    }
}
