// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions on events, as people write them: `prev_tid != 0 && filename =~ "/etc/*"`. docs/reference/filter.md describes the language.
//!
//! ```text
//!   text --token, parse--> expression: the same for all events    (here)
//!   expression --condition--> condition of one class of events    (../condition.rs)
//! ```

pub(crate) mod expression;
pub(crate) mod parse;
mod token;

use std::fmt;

use expression::Expression;

/// Texts longer than this are none that a person wrote.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

/// A condition on events.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    expression: Expression,
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at byte {position}")]
pub struct FilterError {
    /// Byte of the text where it goes wrong.
    pub position: usize,
    /// What is wrong there.
    pub reason: String,
}

impl Filter {
    /// A filter from its text.
    ///
    /// ```
    /// use piste_trace::select::Filter;
    ///
    /// assert!(Filter::parse("ret < 0 && $comm == \"shop\"").is_ok());
    /// let error = Filter::parse("ret < ").expect_err("something is missing");
    /// assert_eq!((error.position, &*error.reason), (6, "expected a field, a number or a text"));
    /// ```
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(FilterError {
                position: FILTER_BYTES_MAX,
                reason: format!("it has {} bytes; at most {FILTER_BYTES_MAX} are allowed", text.len()),
            });
        }
        Ok(Filter {
            text: text.to_owned(),
            expression: parse::expression(text)?,
        })
    }

    pub(super) fn expression(&self) -> &Expression {
        &self.expression
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
