// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: conditions on events, as people write them. docs/reference/filter.md describes the language.
//!
//! ```text
//!   ret < 0 && filename =~ "/etc/*"
//!
//!   text --token, parse--> expression   the same for all events; each part knows its position in the text
//!   expression --condition--> condition of one class of events: the fields are known, and what does not depend on the event is decided
//! ```
//!
//! A back-end translates the tests of an expression for one class of events ([`Expression::of_class`]); everything around the tests is the
//! same for all of them. There are two: `crates/trace` evaluates tests when it reads events, `crates/kernel` translates them into the filters
//! of tracefs. [`value`] defines what a test means; a back-end that cannot do exactly this refuses the filter and gives the reason.

pub mod condition;
pub mod expression;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod parse;
pub mod pattern;
mod token;
pub mod value;

use std::fmt;

pub use condition::Condition;
pub use expression::{BitOperator, Comparison, Expression, Field, Operand, Step, Term, Test};
pub use pattern::Pattern;
pub use value::Value;

/// Bytes of a filter's text. Nobody writes longer ones.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Parentheses and `!` within one another: more than anybody writes, and few enough for the stack.
pub const DEPTH_MAX: usize = 100;
/// Tests of a filter, and `&` within them.
pub const TESTS_MAX: usize = 1000;

/// A condition on events.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    expression: Expression,
}

/// Why a text is not a filter, or not one that can be used here.
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
    /// use piste_filter::Filter;
    ///
    /// assert!(Filter::parse("ret < 0 && $comm == \"shop\"").is_ok());
    /// let error = Filter::parse("ret < ").expect_err("something is missing");
    /// assert_eq!((error.position, &*error.reason), (6, "expected a field, a number or a string"));
    /// ```
    ///
    /// # Errors
    /// Where and why it is not a filter.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        Ok(Filter {
            text: text.to_owned(),
            expression: parse::expression(text)?,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FilterError {
    /// An error at a byte of the text.
    pub fn at(position: usize, reason: impl Into<String>) -> FilterError {
        FilterError {
            position,
            reason: reason.into(),
        }
    }
}

/// One value, as in a list of columns: `ret`, `inner.x`, `$ctx.vtid`, `$pid`.
///
/// # Errors
/// Where and why it is not a value.
pub fn operand(text: &str) -> Result<Operand, FilterError> {
    parse::operand(text)
}
