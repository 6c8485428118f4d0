// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constant expressions of C, as they stand in print formats: `(1 << 3) | 0x10UL`, `-6ULL`, `((gfp_t)((((1UL))) << (4)))`.

use super::token::{Token, inside, is_type};

/// The value, in 64 bits that wrap; `None` when it is not constant, not known (the name of an enumerator), or not defined.
pub(super) fn evaluate(tokens: &[Token]) -> Option<i64> {
    let mut rest = tokens;
    let value = binary(&mut rest, 0, NESTED_MAX)?;
    rest.is_empty().then_some(value)
}

/// Deeper expressions are not evaluated: the stack is finite. Kernels nest a dozen brackets.
const NESTED_MAX: u32 = 100;

/// Operators by how strongly they bind, from the weakest.
fn strength(operator: &str) -> Option<u32> {
    Some(match operator {
        "|" => 1,
        "^" => 2,
        "&" => 3,
        "<<" | ">>" => 4,
        "+" | "-" => 5,
        "*" | "/" | "%" => 6,
        _ => return None,
    })
}

/// Reads an operand, and what operators that bind more strongly than `weakest` add to it.
fn binary(rest: &mut &[Token], weakest: u32, nested_left: u32) -> Option<i64> {
    let mut value = operand(rest, nested_left)?;
    while let [Token::Sign(operator), behind @ ..] = *rest {
        let Some(strength) = strength(operator).filter(|&strength| strength > weakest) else {
            break;
        };
        *rest = behind;
        let right = binary(rest, strength, nested_left.checked_sub(1)?)?;
        value = apply(operator, value, right)?;
    }
    Some(value)
}

fn apply(operator: &str, left: i64, right: i64) -> Option<i64> {
    match operator {
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "<<" => left.checked_shl(u32::try_from(right).ok()?),
        ">>" => left.checked_shr(u32::try_from(right).ok()?),
        "+" => Some(left.wrapping_add(right)),
        "-" => Some(left.wrapping_sub(right)),
        "*" => Some(left.wrapping_mul(right)),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        _ => None,
    }
}

/// A number, an expression in brackets, or either behind `-`, `+`, `~` and casts.
fn operand(rest: &mut &[Token], nested_left: u32) -> Option<i64> {
    let nested_left = nested_left.checked_sub(1)?;
    let (first, behind) = rest.split_first()?;
    match *first {
        Token::Number(value) => {
            *rest = behind;
            Some(value as i64)
        }
        Token::Sign(sign @ ("-" | "+" | "~")) => {
            *rest = behind;
            let value = operand(rest, nested_left)?;
            Some(match sign {
                "-" => value.wrapping_neg(),
                "~" => !value,
                _ => value,
            })
        }
        Token::Sign("(") => {
            let mut inner = inside(rest)?;
            *rest = &rest[inner.len() + 2..];
            if is_type(inner) {
                // The cast cannot change what a field of the same width compares with.
                return operand(rest, nested_left);
            }
            let value = binary(&mut inner, 0, nested_left)?;
            inner.is_empty().then_some(value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::evaluate;

    #[track_caller]
    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(evaluate(&tokens(text)), expected, "{text}");
    }

    #[test]
    fn constants_have_values() {
        check("(1 << 3) | 0x10UL", Some(24));
        check("1 | 2 << 4 - 1 & ~0", Some(17));
        check("-6ULL", Some(-6));
        check("2 - 1 - 1", Some(0));
        check("7 % 4 * 2 / 3", Some(2));
        check("( gfp_t)((((1UL))) << (31))", Some(1 << 31));
        check("(unsigned long)(void *)-1", Some(-1));
        check("0x8000000000000000", Some(i64::MIN));
        check("1 << 63 >> 63", Some(-1));
    }

    #[test]
    fn what_has_no_value_has_none() {
        for text in [
            "",
            "BIT",
            "1 +",
            "1 2",
            "(1",
            "1)",
            "1 / 0",
            "1 << 64",
            "1 << -1",
            "f(1)",
            "sizeof(int)",
            "1 ? 2 : 3",
            "(BIT) - 1",
            "\"1\"",
            "a << 3",
            "(int)",
        ] {
            check(text, None);
        }
        check(&"(".repeat(100_000), None);
        check(&"-".repeat(100_000), None);
        check(&("1".to_owned() + &"|1".repeat(100_000)), Some(1));
        let deep = "(".repeat(1000) + "1" + &")".repeat(1000);
        check(&deep, None);
    }
}
