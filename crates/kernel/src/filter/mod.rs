// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of an event in the kernel's words, for the event's `filter` file in tracefs. docs/reference/filter.md describes the language, and
//! what of it the kernel can do.
//!
//! What is written to the kernel means what the filter means when a trace is read: values are those of the trace (a priority of 20 is the
//! kernel's 120), a comparison with a field that the event does not have is false, and what is known of all events of the class is decided
//! here. What the kernel has no words for is refused, with the reason and what is possible.
//!
//! The kernel understands some texts otherwise than they look: it cuts numbers to the width of the field, looks for the end of a text
//! where its array ends, takes a pattern that begins with a digit for no pattern and one that begins with `!` for its contrary. [`test`](self)
//! and [`pattern`](self) know this.

mod call;
mod pattern;
mod subject;
mod test;

use piste_filter::{BitOperator, Condition, Filter, FilterError, Term};

use crate::format::EventFormat;

pub use call::{CallTranslation, translate_call};

/// Bytes of a filter that the kernel takes: less than a page.
pub const KERNEL_BYTES_MAX: usize = 4095;

/// A filter for one event of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    /// What the kernel is told.
    pub words: Words,
    /// Fields of the filter that the event does not have: comparisons with them are false.
    pub missing: Vec<MissingField>,
}

/// What the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// No filter: every event fulfils it.
    Everything,
    /// Not to record the event: none fulfils it.
    Nothing,
    /// This filter.
    Some(String),
}

/// A field of a filter that an event does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingField {
    /// Byte of the filter where it is.
    pub position: usize,
    /// As it was asked for.
    pub name: String,
}

/// Translates a filter for an event, which is called `trace_name` in the trace, or by several names.
///
/// # Errors
/// Where and why the kernel cannot do what the filter says.
pub fn translate(filter: &Filter, event: &EventFormat, trace_name: Option<&str>) -> Result<Translation, FilterError> {
    let mut translator = test::Translator {
        event,
        trace_name,
        missing: Vec::new(),
    };
    let condition = filter.expression().of_class(&mut |test| translator.test(test))?;
    let words = match condition {
        Condition::Always(true) => Words::Everything,
        Condition::Always(false) => Words::Nothing,
        condition => Words::Some(written(&condition)),
    };
    match &words {
        Words::Some(text) if text.len() > KERNEL_BYTES_MAX => {
            let bytes = text.len();
            let reason =
                format!("it is {bytes} bytes long in the kernel's syntax, and the kernel allows {KERNEL_BYTES_MAX}");
            Err(FilterError::at(filter.to_string().len(), reason))
        }
        _ => Ok(Translation {
            words,
            missing: translator.missing,
        }),
    }
}

/// Why an event that the filter names no wrong field of can never fulfil it.
pub fn never_true(filter: &Filter, event: &EventFormat) -> FilterError {
    let mut has_name = false;
    filter.expression().terms(&mut |term| has_name |= *term == Term::Name);
    let hint = match has_name && event.field("name").is_some() {
        true => "; `name` is the name of the event, and `$payload.name` its field",
        false => "",
    };
    FilterError::at(0, format!("no {} event can match it{hint}", event.name))
}

/// The same when the filter names a field that the event does not have.
pub fn no_such_field(missing: &MissingField, event: &EventFormat) -> FilterError {
    FilterError::at(missing.position, subject::no_such_field(&missing.name, event))
}

/// The filter that is fulfilled when one of `filters` is, all in the kernel's words; `None` when the kernel takes none so long.
pub fn any(filters: &[String]) -> Option<String> {
    if let [filter] = filters {
        return Some(filter.clone());
    }
    let parts: Vec<String> = filters.iter().map(|filter| format!("({filter})")).collect();
    Some(parts.join(" || ")).filter(|text| text.len() <= KERNEL_BYTES_MAX)
}

/// A condition as the kernel reads it, where `&&` binds stronger than `||`.
fn written(condition: &Condition<String>) -> String {
    let list = |parts: &[Condition<String>], sign: &str| parts.iter().map(written).collect::<Vec<_>>().join(sign);
    match condition {
        Condition::Always(value) => format!("{}", u8::from(*value)),
        Condition::Or(parts) => list(parts, " || "),
        Condition::And(parts) => {
            let parts = parts.iter().map(|part| match part {
                Condition::Or(_) => format!("({})", written(part)),
                part => written(part),
            });
            parts.collect::<Vec<_>>().join(" && ")
        }
        Condition::Not(inner) => format!("!({})", written(inner)),
        Condition::Test(words) => words.clone(),
    }
}

/// An operator that the kernel does not have.
fn no_operator(operator: BitOperator, position: usize) -> FilterError {
    let sign = operator.sign();
    FilterError::at(
        position,
        format!("of the operators for bits, the kernel has only `&`, not `{sign}`; use it when you read the trace"),
    )
}

#[cfg(test)]
mod tests;
