// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of calls for the BPF program: `bpf/calls.h` for Rust.
//!
//! A filter is a list of tests and two conditions on their answers: one for the entry of a call, and one for its exit, when it is known what the call
//! returned. The program makes all tests of the entry once, since the memory may be another one at the exit.

use piste_filter::pattern::One;
use piste_filter::{Condition, Pattern};

/// Filters of a recording at most.
pub const FILTER_COUNT: usize = 512;
/// Tests of a filter at most.
pub const TEST_COUNT: usize = 16;
/// Elements of a pattern at most.
pub const PATTERN_COUNT: usize = 128;
/// Bytes of a [`Filter`] for the program.
pub const FILTER_BYTES: usize = 4 + 2 * DECIDER_BYTES + TEST_COUNT * TEST_BYTES;
const DECIDER_BYTES: usize = 2 + 2 * TEST_COUNT;
const TEST_BYTES: usize = 8 + 8 + 8 + 2 * PATTERN_COUNT;

const ANY: u16 = 256;
const STAR: u16 = 257;
const RECORD: u8 = 0xfe;
const DROP: u8 = 0xff;

/// Which calls are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    tests: Vec<Test>,
    entry: Decider,
    exit: Decider,
}

/// A question about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// About a number.
    Number {
        /// Which one.
        subject: Number,
        /// How many bytes it has.
        bytes: u8,
        /// It is negative if its highest bit is set.
        is_signed: bool,
        /// Only these bits are compared.
        mask: u64,
        /// How.
        comparison: Comparison,
        /// With what.
        value: u64,
    },
    /// Whether a text is like a pattern.
    Text {
        /// Which one.
        subject: Text,
        /// The pattern.
        pattern: Vec<u16>,
    },
}

/// A number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The argument with this index.
    Argument(u8),
    /// What the call returned.
    Result,
    /// A part of the copy with this index.
    Member {
        /// The copy.
        copy: u8,
        /// Where in it.
        offset: u16,
    },
    /// The port of the socket address in the copy with this index.
    Port(u8),
    /// The thread.
    Tid,
    /// The CPU.
    Cpu,
}

/// A text of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The copy with this index.
    Copy(u8),
    /// The path of the socket address in the copy with this index.
    Path(u8),
    /// The name of the thread.
    Comm,
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They are equal.
    Equal,
    /// It is less.
    Less,
    /// It is greater.
    Greater,
    /// They have a bit in common.
    Bits,
}

/// A condition has more than [`TEST_COUNT`] tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// The way through the tests, by their answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Decider {
    first: u8,
    /// By test: where it goes on if the answer is yes, or no.
    jumps: [[u8; 2]; TEST_COUNT],
}

/// The pattern as the program has it. `None` if it is too long, or has sets of characters.
pub fn elements(pattern: &Pattern) -> Option<Vec<u16>> {
    let mut elements = Vec::new();
    for (index, part) in pattern.parts().enumerate() {
        if index > 0 {
            elements.push(STAR);
        }
        for one in part {
            elements.push(match one {
                One::Byte(byte) => byte.into(),
                One::Any => ANY,
                One::In(_) | One::NotIn(_) => return None,
            });
        }
    }
    (elements.len() <= PATTERN_COUNT).then_some(elements)
}

/// The pattern that only this text is like. `None` if it is too long.
pub fn elements_of_text(text: &[u8]) -> Option<Vec<u16>> {
    (text.len() <= PATTERN_COUNT).then(|| text.iter().map(|byte| u16::from(*byte)).collect())
}

impl Filter {
    /// The filter that records the calls of which the condition is true. What they return is not known at their entries: those are recorded of which
    /// it may become true.
    ///
    /// # Errors
    /// The program cannot make so many tests.
    pub fn of(condition: &Condition<Test>) -> Result<Filter, TooMany> {
        let mut tests = Vec::new();
        let exit = numbered(condition, &mut tests);
        if tests.len() > TEST_COUNT {
            return Err(TooMany);
        }
        let entry = possible(&exit, true, &|index: &usize| tests[*index].is_of_exit());
        Ok(Filter {
            entry: Decider::of(&entry),
            exit: Decider::of(&exit),
            tests,
        })
    }

    /// As the program has it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.tests.len() as u8, 0, 0, 0];
        self.entry.put(&mut bytes);
        self.exit.put(&mut bytes);
        self.tests.iter().for_each(|test| test.put(&mut bytes));
        bytes.resize(FILTER_BYTES, 0);
        bytes
    }
}

/// The condition with a number for each test.
fn numbered(condition: &Condition<Test>, tests: &mut Vec<Test>) -> Condition<usize> {
    let mut each = |parts: &[Condition<Test>]| parts.iter().map(|part| numbered(part, tests)).collect();
    match condition {
        Condition::Always(value) => Condition::Always(*value),
        Condition::And(parts) => Condition::And(each(parts)),
        Condition::Or(parts) => Condition::Or(each(parts)),
        Condition::Not(inner) => numbered(inner, tests).not(),
        Condition::Test(test) => {
            tests.push(test.clone());
            Condition::Test(tests.len() - 1)
        }
    }
}

/// The condition with the answers that make it true, where they are not known.
fn possible<T: Clone>(condition: &Condition<T>, wanted: bool, is_unknown: &impl Fn(&T) -> bool) -> Condition<T> {
    let each = |parts: &[Condition<T>]| parts.iter().map(|part| possible(part, wanted, is_unknown)).collect();
    match condition {
        Condition::Always(value) => Condition::Always(*value),
        Condition::And(parts) => Condition::all(each(parts)),
        Condition::Or(parts) => Condition::any(each(parts)),
        Condition::Not(inner) => possible(inner, !wanted, is_unknown).not(),
        Condition::Test(test) if is_unknown(test) => Condition::Always(wanted),
        Condition::Test(test) => Condition::Test(test.clone()),
    }
}

/// What may satisfy the condition of the entries of a call, judged without what the call returns.
pub fn of_entry(condition: &Condition<Test>) -> Condition<Test> {
    possible(condition, true, &|test| test.is_of_exit() || !test.is_of_record())
}

/// What may satisfy the condition of the exits of a call, judged without its arguments.
pub fn of_exit(condition: &Condition<Test>) -> Condition<Test> {
    possible(condition, true, &|test| test.is_of_entry() || !test.is_of_record())
}

impl Decider {
    fn of(condition: &Condition<usize>) -> Decider {
        let mut decider = Decider::default();
        decider.first = decider.add(condition, RECORD, DROP);
        decider
    }

    /// Adds a condition that goes on there if it is true, and there if it is not. Returns where it begins.
    fn add(&mut self, condition: &Condition<usize>, yes: u8, no: u8) -> u8 {
        match condition {
            Condition::Always(value) => {
                if *value {
                    yes
                } else {
                    no
                }
            }
            // From the last part to the first: each goes on at the next one.
            Condition::And(parts) => parts.iter().rev().fold(yes, |next, part| self.add(part, next, no)),
            Condition::Or(parts) => parts.iter().rev().fold(no, |next, part| self.add(part, yes, next)),
            Condition::Not(inner) => self.add(inner, no, yes),
            Condition::Test(index) => {
                self.jumps[*index] = [yes, no];
                *index as u8
            }
        }
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend([self.first, 0]);
        bytes.extend(self.jumps.as_flattened());
    }
}

impl Test {
    /// Whether it compares what a call returned.
    fn is_of_exit(&self) -> bool {
        matches!(
            self,
            Test::Number {
                subject: Number::Result,
                ..
            }
        )
    }

    /// Whether it compares an argument.
    fn is_of_entry(&self) -> bool {
        matches!(
            self,
            Test::Number {
                subject: Number::Argument(_),
                ..
            }
        )
    }

    /// Whether the kernel's record of an entry or exit has what it compares.
    fn is_of_record(&self) -> bool {
        let Test::Number { subject, .. } = self else {
            return false;
        };
        matches!(
            subject,
            Number::Argument(_) | Number::Result | Number::Tid | Number::Cpu
        )
    }

    /// The answer, given the number that it compares: what the BPF program answers. A test of a text is not satisfied.
    pub fn holds(&self, number: impl FnOnce(Number) -> u64) -> bool {
        let Test::Number {
            subject,
            bytes,
            is_signed,
            mask,
            comparison,
            value,
        } = self
        else {
            return false;
        };
        let number = number(*subject);
        let unused_bits = 64_u32.saturating_sub(8 * u32::from(*bytes)).min(63);
        let number = match is_signed {
            true => ((number << unused_bits).cast_signed() >> unused_bits).cast_unsigned(),
            false => number << unused_bits >> unused_bits,
        } & mask;
        let order = match is_signed {
            true => number.cast_signed().cmp(&value.cast_signed()),
            false => number.cmp(value),
        };
        match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::Less => order.is_lt(),
            Comparison::Greater => order.is_gt(),
            Comparison::Bits => number & value != 0,
        }
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        let mut pattern = [0; PATTERN_COUNT];
        let (head, mask, value) = match self {
            Test::Number {
                subject,
                bytes,
                is_signed,
                mask,
                comparison,
                value,
            } => {
                let (subject, index, offset) = match *subject {
                    Number::Argument(index) => (0, index, 0),
                    Number::Result => (1, 0, 0),
                    Number::Member { copy, offset } => (2, copy, offset),
                    Number::Port(copy) => (3, copy, 0),
                    Number::Tid => (7, 0, 0),
                    Number::Cpu => (8, 0, 0),
                };
                let [low, high] = offset.to_ne_bytes();
                let comparison = *comparison as u8;
                (
                    [subject, index, comparison, u8::from(*is_signed), *bytes, 0, low, high],
                    *mask,
                    *value,
                )
            }
            Test::Text { subject, pattern: own } => {
                pattern[..own.len()].copy_from_slice(own);
                let (subject, index) = match *subject {
                    Text::Copy(index) => (4, index),
                    Text::Path(index) => (5, index),
                    Text::Comm => (6, 0),
                };
                ([subject, index, 0, 0, 0, own.len() as u8, 0, 0], 0, 0)
            }
        };
        bytes.extend(head);
        bytes.extend(mask.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes.extend(pattern.iter().flat_map(|element| element.to_ne_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(subject: Number, value: u64) -> Condition<Test> {
        Condition::Test(Test::Number {
            subject,
            bytes: 4,
            is_signed: true,
            mask: u64::MAX,
            comparison: Comparison::Equal,
            value,
        })
    }

    /// What is decided of an entry and of an exit, if these tests are answered with yes.
    fn decided(filter: &Filter, yes: &[usize]) -> (bool, bool) {
        let decide = |decider: &Decider| {
            let mut at = decider.first;
            while usize::from(at) < TEST_COUNT {
                let [on_yes, on_no] = decider.jumps[usize::from(at)];
                at = if yes.contains(&at.into()) { on_yes } else { on_no };
            }
            at == RECORD
        };
        (decide(&filter.entry), decide(&filter.exit))
    }

    #[test]
    fn conditions_are_decided_on_the_answers_of_their_tests() {
        let [a, b, c] = [0, 1, 2].map(|index| test(Number::Argument(index), 1));
        // (a || !b) && c
        let condition = Condition::all(vec![Condition::any(vec![a, b.not()]), c]);
        let filter = Filter::of(&condition).unwrap();
        for yes in [&[][..], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
            let has = |index| yes.contains(&index);
            let expected = (has(0) || !has(1)) && has(2);
            assert_eq!(decided(&filter, yes), (expected, expected), "{yes:?}");
        }
    }

    #[test]
    fn an_entry_is_recorded_if_its_exit_may_be() {
        let (argument, result) = (test(Number::Argument(0), 1), test(Number::Result, 0));
        let condition = Condition::all(vec![argument.clone(), result.clone().not()]);
        let filter = Filter::of(&condition).unwrap();
        assert_eq!(decided(&filter, &[]), (false, false));
        assert_eq!(decided(&filter, &[0]), (true, true));
        assert_eq!(decided(&filter, &[0, 1]), (true, false));
        let filter = Filter::of(&Condition::any(vec![argument, result])).unwrap();
        assert_eq!(decided(&filter, &[]), (true, false));
    }

    #[test]
    fn what_a_side_does_not_know_does_not_reject_a_call() {
        let (argument, result) = (test(Number::Argument(0), 1), test(Number::Result, 0));
        let both = Condition::all(vec![argument.clone(), result.clone().not()]);
        assert_eq!(of_entry(&both), argument);
        assert_eq!(of_exit(&both), result.clone().not());
        let either = Condition::any(vec![argument, result]);
        assert_eq!(of_entry(&either), Condition::Always(true));
        let comm = Condition::Test(Test::Text {
            subject: Text::Comm,
            pattern: vec![STAR],
        });
        assert_eq!(of_entry(&comm.not()), Condition::Always(true));
    }

    #[test]
    fn numbers_are_compared_as_wide_as_they_are() {
        let number = |bytes, is_signed, mask, comparison, value: i64| Test::Number {
            subject: Number::Argument(1),
            bytes,
            is_signed,
            mask,
            comparison,
            value: value.cast_unsigned(),
        };
        let holds = |test: &Test, argument: u64| test.holds(|_| argument);
        let equal = number(4, true, u64::MAX, Comparison::Equal, -100);
        assert!(holds(&equal, 0xffff_ff9c) && holds(&equal, (-100_i64).cast_unsigned()) && !holds(&equal, 100));
        let less = number(4, true, u64::MAX, Comparison::Less, 0);
        assert!(holds(&less, 0x8000_0000) && !holds(&less, 0x7fff_ffff));
        let greater = number(4, false, u64::MAX, Comparison::Greater, 5);
        assert!(holds(&greater, 6) && holds(&greater, 0x8000_0000) && !holds(&greater, 0x1_0000_0000));
        let masked = number(8, false, 3, Comparison::Equal, 1);
        assert!(holds(&masked, 5) && !holds(&masked, 6));
        assert!(holds(&number(4, false, u64::MAX, Comparison::Bits, 0x40), 0x41));
    }

    #[test]
    fn a_condition_with_too_many_tests_is_refused() {
        let tests = (0..=TEST_COUNT as u64).map(|value| test(Number::Tid, value)).collect();
        assert_eq!(Filter::of(&Condition::any(tests)), Err(TooMany));
    }

    #[test]
    fn a_pattern_has_bytes_and_stars_and_no_sets() {
        let parsed = |text| elements(&Pattern::parse(text, 0).unwrap());
        assert_eq!(parsed("/a*?"), Some(vec![47, 97, STAR, ANY]));
        assert_eq!(parsed("*"), Some(vec![STAR]));
        assert_eq!(parsed("[a-z]"), None);
        assert_eq!(parsed(&"x".repeat(PATTERN_COUNT + 1)), None);
    }

    #[test]
    fn a_filter_has_the_bytes_that_the_program_expects() {
        let filter = Filter::of(&test(Number::Member { copy: 1, offset: 0x102 }, 5)).unwrap();
        let bytes = filter.bytes();
        assert_eq!((bytes.len(), bytes.len() % 8), (FILTER_BYTES, 0));
        assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, RECORD, DROP]);
        assert_eq!(bytes[72..80], [2, 1, 0, 1, 4, 0, 2, 1]);
        assert_eq!(bytes[88..96], 5_u64.to_ne_bytes());
    }
}
