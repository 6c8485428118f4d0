// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter for the events of one class: a back-end's form of each test, and around the tests only what depends on the event.

use crate::{Expression, Test};

/// True or false of an event of a class; `T` is a back-end's form of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition<T> {
    /// The same for all events of the class.
    Always(bool),
    /// All are true; two at least.
    And(Vec<Condition<T>>),
    /// One is true; two at least.
    Or(Vec<Condition<T>>),
    /// It is false.
    Not(Box<Condition<T>>),
    /// What a back-end made of a test.
    Test(T),
}

impl Expression {
    /// The condition for a class of events; `test` says what a test means for this class.
    ///
    /// # Errors
    /// Those of `test`.
    pub fn of_class<T, E>(&self, test: &mut impl FnMut(&Test) -> Result<Condition<T>, E>) -> Result<Condition<T>, E> {
        match self {
            Expression::And(parts) => Ok(Condition::all(of_each(parts, test)?)),
            Expression::Or(parts) => Ok(Condition::any(of_each(parts, test)?)),
            Expression::Not(inner) => inner.of_class(test).map(Condition::not),
            Expression::Test(one) => test(one),
        }
    }
}

fn of_each<T, E>(
    parts: &[Expression],
    test: &mut impl FnMut(&Test) -> Result<Condition<T>, E>,
) -> Result<Vec<Condition<T>>, E> {
    parts.iter().map(|part| part.of_class(test)).collect()
}

impl<T> Condition<T> {
    /// All of them are true.
    pub fn all(parts: Vec<Condition<T>>) -> Condition<T> {
        Condition::joined(parts, true)
    }

    /// One of them is true.
    pub fn any(parts: Vec<Condition<T>>) -> Condition<T> {
        Condition::joined(parts, false)
    }

    /// A part that is always `neutral` changes nothing, one that never is decides.
    fn joined(mut parts: Vec<Condition<T>>, neutral: bool) -> Condition<T> {
        let is_deciding = |part: &Condition<T>| matches!(part, Condition::Always(value) if *value != neutral);
        if parts.iter().any(is_deciding) {
            return Condition::Always(!neutral);
        }
        parts.retain(|part| !matches!(part, Condition::Always(_)));
        match (parts.len(), neutral) {
            (0, _) => Condition::Always(neutral),
            (1, _) => parts.remove(0),
            (_, true) => Condition::And(parts),
            (_, false) => Condition::Or(parts),
        }
    }

    /// The contrary.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "it is no operator here")]
    pub fn not(self) -> Condition<T> {
        match self {
            Condition::Always(value) => Condition::Always(!value),
            condition => Condition::Not(Box::new(condition)),
        }
    }

    /// Whether it is true of an event; `test` says which tests are.
    pub fn holds(&self, test: &impl Fn(&T) -> bool) -> bool {
        match self {
            Condition::Always(value) => *value,
            Condition::And(parts) => parts.iter().all(|part| part.holds(test)),
            Condition::Or(parts) => parts.iter().any(|part| part.holds(test)),
            Condition::Not(inner) => !inner.holds(test),
            Condition::Test(one) => test(one),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Term};

    /// `t` and `f` are always true and always false, all other fields depend on the event.
    fn check(text: &str, expected: &str) {
        let filter = Filter::parse(text).expect(text);
        let condition = filter.expression().of_class(&mut |test| {
            let Test::Compare { left, .. } = test else {
                return Err("another test");
            };
            let Term::Field(field) = &left.term else {
                return Err("another term");
            };
            Ok(match &*field.path_text() {
                "t" => Condition::Always(true),
                "f" => Condition::Always(false),
                name => Condition::Test(name.to_owned()),
            })
        });
        assert_eq!(show(&condition.expect(text)), expected, "{text}");
    }

    fn show(condition: &Condition<String>) -> String {
        let parts = |parts: &[Condition<String>], sign| parts.iter().map(show).collect::<Vec<_>>().join(sign);
        match condition {
            Condition::Always(value) => value.to_string(),
            Condition::And(list) => format!("({})", parts(list, " and ")),
            Condition::Or(list) => format!("({})", parts(list, " or ")),
            Condition::Not(inner) => format!("not {}", show(inner)),
            Condition::Test(name) => name.clone(),
        }
    }

    #[test]
    fn what_is_decided_is_left_out() {
        check("a == 1 && t == 1", "a");
        check("a == 1 && b == 1 && f == 1", "false");
        check("a == 1 || t == 1", "true");
        check("f == 1 || a == 1 || b == 1", "(a or b)");
        check("!(f == 1) && !(a == 1 && t == 1)", "not a");
        check("(f == 1 || f == 2) || !(t == 1)", "false");
        check("a == 1 && (b == 1 || c == 1)", "(a and (b or c))");
    }

    #[test]
    fn a_condition_holds_as_its_tests_do() {
        let filter = Filter::parse("a == 1 && !(b == 1 || c == 1)").expect("a filter");
        let condition: Result<_, ()> = filter.expression().of_class(&mut |test| {
            let Test::Compare { left, .. } = test else {
                return Err(());
            };
            Ok(Condition::Test(left.position))
        });
        let condition = condition.expect("a condition");
        assert!(condition.holds(&|position| *position == 0));
        assert!(!condition.holds(&|position| *position != 0));
        assert!(!condition.holds(&|_| true));
    }
}
