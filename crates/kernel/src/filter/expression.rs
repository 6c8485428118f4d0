// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of a filter: from text to a tree of tests. What its names and values mean is test.rs' business.

use super::FilterFault;

/// A filter, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression<'t> {
    /// `a || b || ..`; two at least.
    Any(Vec<Expression<'t>>),
    /// `a && b && ..`; two at least.
    All(Vec<Expression<'t>>),
    /// `!a`
    Not(Box<Expression<'t>>),
    /// `FIELD OPERATOR VALUE`
    Test(Test<'t>),
}

/// One comparison; each part with the byte at which it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test<'t> {
    pub(super) field: (usize, &'t str),
    pub(super) operator: (usize, &'static str),
    pub(super) value: (usize, Value<'t>),
}

/// What a field is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'t> {
    /// In quotes; without them.
    Text { content: &'t str, quote: char },
    /// As written: `-1`, `0x10`.
    Number(&'t str),
    /// The name of a value.
    Word(&'t str),
}

/// Longer ones come before those that they begin with.
const OPERATORS: [&str; 8] = ["==", "!=", "<=", ">=", "<", ">", "&", "~"];

/// Parentheses within each other. Far more than anybody writes, and little enough for the stack.
const DEPTH_MAX: usize = 64;

/// Reads a filter.
pub(super) fn parse(filter: &str) -> Result<Expression<'_>, FilterFault> {
    if let Some((position, _)) = filter
        .char_indices()
        .find(|&(_, c)| c.is_control() && !c.is_ascii_whitespace())
    {
        return Err(FilterFault::at(position, "control characters are not allowed"));
    }
    let mut reader = Reader {
        text: filter,
        position: 0,
        depth: 0,
    };
    let expression = reader.any()?;
    match reader.rest().chars().next() {
        None => Ok(expression),
        Some(')') => Err(reader.fault("`)` without an open parenthesis")),
        Some(found) => Err(reader.fault(format!("expected `&&`, `||` or the end, not {found:?}"))),
    }
}

struct Reader<'t> {
    text: &'t str,
    position: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn any(&mut self) -> Result<Expression<'t>, FilterFault> {
        self.list("||", Reader::all, Expression::Any)
    }

    fn all(&mut self) -> Result<Expression<'t>, FilterFault> {
        self.list("&&", Reader::one, Expression::All)
    }

    fn list(
        &mut self,
        operator: &str,
        part: fn(&mut Self) -> Result<Expression<'t>, FilterFault>,
        join: fn(Vec<Expression<'t>>) -> Expression<'t>,
    ) -> Result<Expression<'t>, FilterFault> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.take(operator) {
            parts.push(part(self)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { join(parts) })
    }

    fn one(&mut self) -> Result<Expression<'t>, FilterFault> {
        if self.depth == DEPTH_MAX {
            return Err(self.fault(format!("more than {DEPTH_MAX} parentheses and `!` are open")));
        }
        self.depth += 1;
        let expression = if self.take("!") {
            Expression::Not(Box::new(self.one()?))
        } else if self.take("(") {
            let opened = self.position - 1;
            let inner = self.any()?;
            if !self.take(")") {
                return Err(match self.rest().chars().next() {
                    None => FilterFault::at(opened, "this parenthesis is not closed"),
                    Some(found) => self.fault(format!("expected `&&`, `||` or `)`, not {found:?}")),
                });
            }
            inner
        } else {
            Expression::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn test(&mut self) -> Result<Test<'t>, FilterFault> {
        let field = self.word(|index, c| is_word(c) || index == 0 && c == '$');
        if field.1.is_empty() || field.1 == "$" {
            return Err(FilterFault::at(field.0, "expected the name of a field, `(` or `!`"));
        }
        let start = self.rest_position();
        let Some(operator) = OPERATORS.into_iter().find(|operator| self.take(operator)) else {
            return Err(FilterFault::at(
                start,
                format!("expected a comparison after `{}`: == != < <= > >= & ~", field.1),
            ));
        };
        Ok(Test {
            field,
            operator: (start, operator),
            value: self.value()?,
        })
    }

    fn value(&mut self) -> Result<(usize, Value<'t>), FilterFault> {
        let rest = self.rest();
        let start = self.position;
        let quote = rest.chars().next().filter(|&c| c == '"' || c == '\'');
        if let Some(quote) = quote {
            let Some(bytes) = rest[1..].find(quote) else {
                return Err(FilterFault::at(start, "this quote is not closed"));
            };
            self.position += bytes + 2;
            let content = &rest[1..=bytes];
            return Ok((start, Value::Text { content, quote }));
        }
        let word = self.word(|index, c| is_word(c) || index == 0 && c == '-').1;
        match word.chars().next() {
            None => Err(FilterFault::at(
                start,
                "expected a value: a number, a text in quotes, or the name of a value",
            )),
            Some(c) if c == '-' || c.is_ascii_digit() => Ok((start, Value::Number(word))),
            Some(_) => Ok((start, Value::Word(word))),
        }
    }

    /// The longest run of characters that `is_part` allows at their index, and where it starts.
    fn word(&mut self, is_part: impl Fn(usize, char) -> bool) -> (usize, &'t str) {
        let rest = self.rest();
        let end = rest
            .char_indices()
            .find(|&(index, c)| !is_part(index, c))
            .map_or(rest.len(), |(index, _)| index);
        let start = self.position;
        self.position += end;
        (start, &rest[..end])
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.rest().starts_with(token);
        if is_there {
            self.position += token.len();
        }
        is_there
    }

    /// What is left, from the next character that is no space.
    fn rest(&mut self) -> &'t str {
        let rest = self.text[self.position..].trim_start();
        self.position = self.text.len() - rest.len();
        rest
    }

    fn rest_position(&mut self) -> usize {
        self.rest();
        self.position
    }

    fn fault(&self, reason: impl Into<String>) -> FilterFault {
        FilterFault::at(self.position, reason)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
