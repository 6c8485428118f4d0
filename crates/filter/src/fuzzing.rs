// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry point for fuzzers: any text goes in, and nothing may panic or contradict itself.

use crate::{Condition, Filter, Test, Value};

/// Takes `bytes` for a filter: an error is at a character of the text, and a filter can be evaluated.
/// # Panics
/// When it is otherwise: the bug that a fuzzer looks for.
pub fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(text.is_char_boundary(error.position), "{text:?}: {error}");
            return;
        }
    };
    let is_inside = |position: usize| assert!(text.is_char_boundary(position), "{text:?}: {position}");
    filter.expression().tests(&mut |test| match test {
        Test::Compare {
            left, position, right, ..
        } => [left.position, *position, right.position]
            .into_iter()
            .for_each(is_inside),
        Test::Like {
            operand,
            position,
            pattern_position,
            pattern,
            ..
        } => {
            [operand.position, *position, *pattern_position]
                .into_iter()
                .for_each(is_inside);
            // What a pattern says as it stands is what it matches, unless it has signs.
            if !pattern.text().contains(['*', '?', '[', '\\']) {
                assert!(pattern.matches(pattern.text().as_bytes()), "{text:?}");
            }
        }
        Test::Exists { position, .. } => is_inside(*position),
    });
    // With values of every kind, by the tests' positions.
    let values = [
        Value::Nothing,
        Value::Integer(-1),
        Value::Label(1, &[]),
        Value::Float(f64::NAN),
        Value::Text(b"\xffa"),
        Value::Whole,
    ];
    for value in values {
        let condition: Result<Condition<bool>, ()> = filter.expression().of_class(&mut |test| {
            Ok(Condition::Test(match test {
                Test::Compare {
                    left,
                    comparison,
                    right,
                    ..
                } => {
                    let constant = left.constant().or(right.constant()).unwrap_or(value);
                    value.compares(*comparison, constant)
                }
                Test::Like {
                    pattern, is_negated, ..
                } => value.is_like(pattern, *is_negated),
                Test::Exists { .. } => true,
            }))
        });
        let condition = condition.expect("no test fails");
        assert_ne!(
            condition.holds(&|is_true| *is_true),
            condition.not().holds(&|is_true| *is_true)
        );
    }
}
