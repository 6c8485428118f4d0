// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as text: by base, and floating point as C's `%g` has it.

use super::literal::Out;
use crate::read::plan::IntegerNode;
use crate::read::schema::{Base, Meaning, Width};

/// `00` to `99`; the rest makes indices of seven bits right without a look.
static PAIRS: [[u8; 2]; 128] = {
    let mut pairs = [[0; 2]; 128];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Bytes of a decimal number with its sign, at most.
pub(super) const DECIMAL_BYTES_MAX: usize = 20;

/// A number without a sign, in decimal.
#[inline(always)]
pub(super) fn decimal(out: &mut impl Out, number: u64) {
    const ZEROS: u64 = u64::from_le_bytes(*b"00000000");
    if number < 10 {
        out.whole(&[b'0' + number as u8]);
    } else if number < 100 {
        out.whole(&two_digits(number as u8));
    } else if number < 100_000_000 {
        let digits = u64::from_le_bytes(eight_digits(number as u32));
        // Zeros at the start are the low bytes.
        let zeros = (digits ^ ZEROS).trailing_zeros() / 8;
        out.start_of(&(digits >> (8 * zeros)).to_le_bytes(), 8 - zeros as usize);
    } else {
        let (bytes, length) = long_decimal(number);
        out.start_of(&bytes, length);
    }
}

/// Of nine digits and more.
fn long_decimal(number: u64) -> ([u8; 24], usize) {
    let (mut bytes, mut length) = ([0; 24], 24);
    let mut rest = number;
    while rest >= 100_000_000 {
        length -= 8;
        bytes[length..length + 8].copy_from_slice(&eight_digits((rest % 100_000_000) as u32));
        rest /= 100_000_000;
    }
    while rest >= 10 {
        length -= 2;
        bytes[length..length + 2].copy_from_slice(&two_digits((rest % 100) as u8));
        rest /= 100;
    }
    if rest > 0 {
        length -= 1;
        bytes[length] = b'0' + rest as u8;
    }
    let start = length + usize::from(bytes[length] == b'0');
    let mut digits = [0; 24];
    digits[..24 - start].copy_from_slice(&bytes[start..]);
    (digits, 24 - start)
}

/// Of a number below 100 000 000, with zeros at the start.
#[inline(always)]
fn eight_digits(number: u32) -> [u8; 8] {
    let (high, low) = (number / 10_000, number % 10_000);
    let [a, b] = two_digits((high / 100) as u8);
    let [c, d] = two_digits((high % 100) as u8);
    let [e, f] = two_digits((low / 100) as u8);
    let [g, h] = two_digits((low % 100) as u8);
    [a, b, c, d, e, f, g, h]
}

/// Two digits.
#[inline(always)]
pub(super) fn two_digits(number: u8) -> [u8; 2] {
    PAIRS[usize::from(number) % 128]
}

/// Nine digits: nanoseconds of a second.
#[inline(always)]
pub(super) fn nine_digits(number: u32) -> [u8; 9] {
    let mut digits = [b'0' + (number / 100_000_000) as u8; 9];
    digits[1..].copy_from_slice(&eight_digits(number % 100_000_000));
    digits
}

#[inline(always)]
pub(super) fn signed_decimal(out: &mut impl Out, number: i64) {
    if number < 0 {
        out.whole(b"-");
    }
    decimal(out, number.unsigned_abs());
}

/// A whole number as its base and meaning want it. `value` is extended by its sign.
#[inline]
pub(super) fn integer(out: &mut Vec<u8>, node: &IntegerNode, value: u64) {
    match (node.meaning, node.base) {
        (Meaning::Number | Meaning::Character, Base::Decimal) => match node.is_signed {
            true => signed_decimal(out, value.cast_signed()),
            false => decimal(out, value),
        },
        _ => rare_integer(out, node, value),
    }
}

fn rare_integer(out: &mut Vec<u8>, node: &IntegerNode, value: u64) {
    let bits = match node.width {
        Width::Bits(bits) => bits,
        Width::Variable => 64,
    };
    match (node.meaning, node.base) {
        (Meaning::Boolean, _) => out.extend_from_slice(if value != 0 { b"true" } else { b"false" }),
        (Meaning::Bits, _) => hexadecimal(out, value),
        (_, Base::Hexadecimal) => hexadecimal(out, low_bits(value, bits.next_multiple_of(4))),
        // Without a sign there is nothing above.
        (_, Base::Octal) => {
            out.push(b'0');
            let digits = low_bits(value, bits.div_ceil(3) * 3);
            out.extend_from_slice(format!("{digits:o}").as_bytes());
        }
        (_, Base::Binary) => {
            out.extend_from_slice(b"0b");
            out.extend((0..bits).rev().map(|bit| b'0' + (value >> bit & 1) as u8));
        }
        (_, Base::Decimal) => unreachable!("it is no rare one"),
    }
}

/// Bytes of a hexadecimal number, at most.
pub(super) const HEXADECIMAL_BYTES_MAX: usize = 18;

/// `0x1F`
#[inline(always)]
pub(super) fn hexadecimal(out: &mut impl Out, value: u64) {
    let count = (64 - (value | 1).leading_zeros()).div_ceil(4);
    let left = value << (64 - 4 * count);
    let digits = (u128::from(hexadecimal_digits((left >> 32) as u32)) << 64
        | u128::from(hexadecimal_digits(left as u32)))
    .to_be_bytes();
    out.whole(b"0x");
    out.start_of(&digits, count as usize);
}

/// Eight of them, the first in the highest byte.
#[inline]
fn hexadecimal_digits(value: u32) -> u64 {
    // A nibble into each byte.
    let mut nibbles = u64::from(value);
    nibbles = (nibbles << 16 | nibbles) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles << 8 | nibbles) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles << 4 | nibbles) & 0x0f0f_0f0f_0f0f_0f0f;
    // Those of ten and more reach 16 when 6 is added, and are letters, 7 behind the digits.
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    nibbles + 0x3030_3030_3030_3030 + 7 * letters
}

fn low_bits(value: u64, bits: u32) -> u64 {
    match bits {
        64.. => value,
        _ => value & ((1 << bits) - 1),
    }
}

/// Bytes of a floating-point number as text, at most.
pub(super) const FLOAT_BYTES_MAX: usize = 16;

/// As C's `%g`: six digits, without zeros at the end, with an exponent where that is shorter.
#[inline]
pub(super) fn float(out: &mut impl Out, value: f64) {
    let (bytes, length) = float_text(value);
    out.start_of(&bytes, length);
}

fn float_text(value: f64) -> ([u8; FLOAT_BYTES_MAX], usize) {
    let mut memory = [0; FLOAT_BYTES_MAX];
    let mut length = 0;
    let mut add = |bytes: &[u8]| {
        memory[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    };
    if value.is_sign_negative() {
        add(b"-");
    }
    if !value.is_finite() {
        add(if value.is_nan() { b"nan" } else { b"inf" });
        return (memory, length);
    }
    let (digits, exponent) = six_digits(value.abs()).unwrap_or_else(|| exact_digits(value.abs()));
    let count = 6 - digits[1..].iter().rev().take_while(|digit| **digit == b'0').count();
    match exponent {
        0..6 => {
            let whole = exponent as usize + 1;
            // Zeros before the point are digits too.
            add(&digits[..whole]);
            if count > whole {
                add(b".");
                add(&digits[whole..count]);
            }
        }
        -4..0 => {
            add(&b"0.000"[..1 + exponent.unsigned_abs() as usize]);
            add(&digits[..count]);
        }
        _ => {
            add(&digits[..1]);
            if count > 1 {
                add(b".");
                add(&digits[1..count]);
            }
            add(if exponent < 0 { b"e-" } else { b"e+" });
            let exponent = exponent.unsigned_abs();
            if exponent >= 100 {
                add(&[b'0' + (exponent / 100) as u8]);
            }
            add(&two_digits((exponent % 100) as u8));
        }
    }
    (memory, length)
}

/// The first six digits and the exponent of ten, of a number without a sign. `None` where a multiplication cannot tell: it is right up to a part
/// in 2^52, and what is nearer than that to the middle between two results takes more.
fn six_digits(value: f64) -> Option<([u8; 6], i32)> {
    /// Powers of ten that are exact.
    const POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22,
    ];
    const NEAR: f64 = 1e-6;
    if value == 0.0 {
        return Some((*b"000000", 0));
    }
    if !(1e-10..1e15).contains(&value) {
        return None;
    }
    // From the exponent of two; one too low at most.
    let mut exponent = (((value.to_bits() >> 52) as i32 - 1023) * 1233) >> 12;
    let scale = |exponent: i32| match 5 - exponent {
        up @ 0.. => value * POWERS[up as usize],
        down => value / POWERS[down.unsigned_abs() as usize],
    };
    let mut scaled = scale(exponent);
    if scaled >= 999_999.5 {
        exponent += 1;
        scaled = scale(exponent);
    }
    let whole = scaled.floor();
    let part = scaled - whole;
    let is_near = (part - 0.5).abs() <= NEAR;
    // The rest of the product is 0.
    let is_exact = || exponent <= 5 && value.mul_add(POWERS[(5 - exponent) as usize], -scaled) == 0.0;
    if scaled < 100_000.0 || is_near && !is_exact() {
        return None;
    }
    let whole = whole as u32;
    let number = whole + u32::from(part > 0.5 || part == 0.5 && whole % 2 == 1);
    let digits = eight_digits(number);
    (number < 1_000_000).then_some((
        [digits[2], digits[3], digits[4], digits[5], digits[6], digits[7]],
        exponent,
    ))
}

/// The same, of every number.
fn exact_digits(value: f64) -> ([u8; 6], i32) {
    // `1.23457e-7`
    let scientific = format!("{value:.5e}");
    let text = scientific.as_bytes();
    let split = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let exponent = std::str::from_utf8(&text[split + 1..])
        .ok()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default();
    ([text[0], text[2], text[3], text[4], text[5], text[6]], exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_of_every_length() {
        let mut number = 0_u64;
        for _ in 0..=20 {
            for number in [number, number.saturating_add(1), number.saturating_sub(1)] {
                let mut out = vec![];
                decimal(&mut out, number);
                assert_eq!(String::from_utf8(out).expect("digits"), number.to_string());
            }
            number = number.saturating_mul(10).max(1);
        }
        let mut out = vec![];
        signed_decimal(&mut out, i64::MIN);
        assert_eq!(out, i64::MIN.to_string().into_bytes());
        for number in [0, 1, 12_345, 99_999, 100_000, 123_456_789, 999_999_999] {
            assert_eq!(nine_digits(number), *format!("{number:09}").as_bytes());
        }
    }

    #[test]
    fn hexadecimal_numbers_of_every_length() {
        for shift in 0..64 {
            for number in [0x0123_4567_89ab_cdef_u64 >> shift, u64::MAX >> shift, 1 << shift] {
                let mut out = vec![];
                hexadecimal(&mut out, number);
                assert_eq!(String::from_utf8(out).expect("digits"), format!("0x{number:X}"));
            }
        }
        let mut out = vec![];
        hexadecimal(&mut out, 0);
        assert_eq!(out, b"0x0");
    }

    #[test]
    fn quick_digits_of_floating_point_are_the_exact_ones() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        let mut quick = 0;
        for round in 0..200_000_u32 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
            let power = f64::from(round % 27) - 11.0;
            // Also those of few digits, which are near to a middle.
            let few = (unit * 4_194_304.0).round() / 64.0;
            for value in [unit * 10_f64.powf(power), few, few * 1e-6, few + 0.5] {
                if let Some(found) = six_digits(value) {
                    assert_eq!(found, exact_digits(value), "{value:e}");
                    quick += 1;
                }
            }
        }
        assert!(quick > 400_000, "{quick}");
    }

    #[test]
    fn floating_point_as_percent_g() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (100_000.0, "100000"),
            (999_999.5, "1e+06"),
            (999_999.4, "999999"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.000_123_456_7, "0.000123457"),
            (0.00001, "1e-05"),
            (0.000_099_999_99, "0.0001"),
            (1e100, "1e+100"),
            (5e-324, "4.94066e-324"),
            (f64::MAX, "1.79769e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (-f64::NAN, "-nan"),
            (f64::NAN, "nan"),
            (3.251_592_653, "3.25159"),
            (123.0, "123"),
            (0.5, "0.5"),
            (2.5e-5, "2.5e-05"),
            (1_000_005.0, "1e+06"),
            (100_000.5, "100000"),
        ] {
            let mut out = vec![];
            float(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
