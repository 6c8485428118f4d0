// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens to an expression. `||` binds less than `&&`, that less than `!`.

use super::FilterError;
use super::expression::{ANYWHERE, Comparison, Expression, Field, Operand, SCOPES, Step};
use super::token::{Token, tokens, wrong};

/// Parentheses and `!` within one another.
const DEPTH_MAX: usize = 100;
/// Joined by `&&` or `||`, in all.
const COMPARISONS_MAX: usize = 1000;

pub(super) fn expression(text: &str) -> Result<Expression, FilterError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        depth: 0,
        comparisons: 0,
    };
    let expression = parser.any()?;
    match parser.token() {
        Token::End => Ok(expression),
        Token::Sign(")") => Err(parser.wrong("`)` without an open parenthesis")),
        _ => Err(parser.wrong("expected `&&`, `||` or the end")),
    }
}

/// A value by itself, as in a list of columns.
pub(crate) fn operand(text: &str) -> Result<Operand, FilterError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        depth: 0,
        comparisons: 0,
    };
    let operand = parser.operand()?;
    match parser.token() {
        Token::End => Ok(operand),
        _ => Err(parser.wrong("expected the end of the field")),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
    comparisons: usize,
}

impl Parser {
    fn any(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.all()?;
        while self.takes("||") {
            left = Expression::Or(Box::new(left), Box::new(self.all()?));
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.one()?;
        while self.takes("&&") {
            left = Expression::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Expression, FilterError> {
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("parentheses are nested more than 100 deep"));
        }
        self.depth += 1;
        let expression = if self.takes("!") {
            Expression::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.any()?;
            self.expect(")", "expected `)`")?;
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, FilterError> {
        self.comparisons += 1;
        if self.comparisons > COMPARISONS_MAX {
            return Err(self.wrong("more than 1000 comparisons"));
        }
        if *self.token() == Token::Word("exists".into()) && self.tokens[self.next + 1].1 == Token::Sign("(") {
            self.next += 2;
            let Operand::Field(field) = self.operand()? else {
                return Err(self.wrong_before("expected a field"));
            };
            self.expect(")", "expected `)`")?;
            return Ok(Expression::Exists(field));
        }
        let left = self.operand()?;
        let Token::Sign(sign) = *self.token() else {
            return Err(self.wrong_sign());
        };
        let comparison = match sign {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            "&" => Comparison::Bits,
            "=~" | "!~" => {
                self.next += 1;
                let Operand::Text(pattern) = self.operand()? else {
                    return Err(self.wrong_before("expected a text, in which `*` matches any text"));
                };
                let like = Expression::Like(left.clone(), pattern);
                return Ok(match sign {
                    "=~" => like,
                    // Of a field that there is not, nothing is true.
                    _ => match &left {
                        Operand::Field(field) => Expression::And(
                            Box::new(Expression::Exists(field.clone())),
                            Box::new(Expression::Not(Box::new(like))),
                        ),
                        _ => Expression::Not(Box::new(like)),
                    },
                });
            }
            _ => return Err(self.wrong_sign()),
        };
        self.next += 1;
        let right = self.operand()?;
        Ok(Expression::Compare(left, comparison, right))
    }

    fn operand(&mut self) -> Result<Operand, FilterError> {
        let operand = match self.token().clone() {
            Token::Integer(number) => Operand::Integer(number),
            Token::Float(number) => Operand::Float(number),
            Token::Text(text) => Operand::Text(text),
            Token::Sign("-") => {
                self.next += 1;
                match *self.token() {
                    Token::Integer(number) => Operand::Integer(-number),
                    Token::Float(number) => Operand::Float(-number),
                    _ => return Err(self.wrong("expected a number after `-`")),
                }
            }
            Token::Word(word) => match &*word {
                "true" => Operand::Integer(1),
                "false" => Operand::Integer(0),
                "name" => Operand::Name,
                _ => {
                    self.next += 1;
                    return self.field(ANYWHERE, vec![Step::Name(word)]);
                }
            },
            Token::Variable(variable) => match &*variable {
                "name" => Operand::Name,
                "time" => Operand::Time,
                "cpu" => Operand::Cpu,
                "pid" => Operand::Pid,
                "tid" => Operand::Tid,
                "comm" => Operand::Comm,
                scope => {
                    let Some((_, scopes)) = SCOPES.iter().find(|(known, _)| *known == scope) else {
                        let scopes = SCOPES.map(|(scope, _)| format!("${scope}.")).join(", ");
                        return Err(self.wrong(&format!(
                            "there is no ${variable}; use $name, $time, $cpu, $pid, $tid or $comm, or before a field {scopes}"
                        )));
                    };
                    self.next += 1;
                    if *self.token() != Token::Sign(".") {
                        return Err(self.wrong(&format!("expected a `.` and a field after ${scope}")));
                    }
                    return self.field(scopes, vec![]);
                }
            },
            _ => return Err(self.wrong("expected a field, a number or a text")),
        };
        self.next += 1;
        Ok(operand)
    }

    /// What stands behind the first name of a field.
    fn field(
        &mut self,
        scopes: &'static [piste_ctf::read::schema::Scope],
        mut path: Vec<Step>,
    ) -> Result<Operand, FilterError> {
        loop {
            if self.takes(".") {
                let Token::Word(name) = self.token().clone() else {
                    return Err(self.wrong("expected the name of a field after `.`"));
                };
                path.push(Step::Name(name));
                self.next += 1;
            } else if self.takes("[") {
                let index = match *self.token() {
                    Token::Integer(index) => u64::try_from(index).ok(),
                    _ => None,
                };
                let Some(index) = index else {
                    return Err(self.wrong("expected the index of an element, starting at 0"));
                };
                path.push(Step::Index(index));
                self.next += 1;
                self.expect("]", "expected `]`")?;
            } else {
                return Ok(Operand::Field(Field { scopes, path }));
            }
        }
    }

    fn token(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.token(), Token::Sign(there) if *there == sign);
        self.next += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &str, reason: &str) -> Result<(), FilterError> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.wrong(reason)),
        }
    }

    fn wrong(&self, reason: &str) -> FilterError {
        wrong(self.tokens[self.next].0, reason)
    }

    /// About the token before.
    fn wrong_before(&self, reason: &str) -> FilterError {
        wrong(self.tokens[self.next.saturating_sub(1)].0, reason)
    }

    fn wrong_sign(&self) -> FilterError {
        self.wrong("expected a comparison: ==, !=, <, <=, >, >=, =~, !~ or &")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match expression(text) {
            Ok(expression) => show(&expression),
            Err(error) => format!("{}: {}", error.position, error.reason),
        };
        assert_eq!(shown, expected, "{text}");
    }

    fn show(expression: &Expression) -> String {
        match expression {
            Expression::And(left, right) => format!("({} and {})", show(left), show(right)),
            Expression::Or(left, right) => format!("({} or {})", show(left), show(right)),
            Expression::Not(inner) => format!("not {}", show(inner)),
            Expression::Compare(left, comparison, right) => {
                format!("{} {comparison:?} {}", operand(left), operand(right))
            }
            Expression::Like(left, pattern) => format!("{} like {}", operand(left), String::from_utf8_lossy(pattern)),
            Expression::Exists(found) => format!("exists {}", field(found)),
        }
    }

    fn operand(operand: &Operand) -> String {
        match operand {
            Operand::Integer(number) => number.to_string(),
            Operand::Float(number) => format!("{number:?}"),
            Operand::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
            Operand::Field(found) => field(found),
            other => format!("${other:?}"),
        }
    }

    fn field(field: &Field) -> String {
        let scopes = field.scopes.len();
        let steps = field.path.iter().map(|step| match step {
            Step::Name(name) => format!(".{name}"),
            Step::Index(index) => format!("[{index}]"),
        });
        format!("{scopes}{}", steps.collect::<String>())
    }

    #[test]
    fn operators_bind_as_in_c() {
        check(
            "a == 1 || b == 2 && !c == 3",
            "(6.a Equal 1 or (6.b Equal 2 and not 6.c Equal 3))",
        );
        check(
            "(a<1||b>=2)&&c!=d",
            "((6.a Less 1 or 6.b GreaterOrEqual 2) and 6.c NotEqual 6.d)",
        );
        check(
            "!(a <= 1) && flags & 0x80",
            "(not 6.a LessOrEqual 1 and 6.flags Bits 128)",
        );
    }

    #[test]
    fn operands_are_fields_variables_numbers_and_texts() {
        check("a.b[3].c == -7", "6.a.b[3].c Equal -7");
        check("$ctx.vtid > 010", "3.vtid Greater 8");
        check("`odd name` == 1.5e3", "6.odd name Equal 1500.0");
        check("$payload.name != 'it\\'s'", "1.name NotEqual \"it's\"");
        check("name == \"a\" && $pid == 0b11", "($Name Equal \"a\" and $Pid Equal 3)");
        check("a < 4K && b > 1.5ms", "(6.a Less 4096 and 6.b Greater 1500000.0)");
        check("a == 10us", "6.a Equal 10000");
        check("file =~ \"/etc/*\"", "6.file like /etc/*");
        check("file !~ '*'", "(exists 6.file and not 6.file like *)");
        check("exists($ctx.a) || exists == true", "(exists 3.a or 6.exists Equal 1)");
    }

    #[test]
    fn faults_name_their_place() {
        for (text, expected) in [
            ("", "0: expected a field, a number or a text"),
            ("a", "1: expected a comparison: ==, !=, <, <=, >, >=, =~, !~ or &"),
            ("a = 1", "2: `=` is not a comparison; write `==`"),
            ("a == 1 b", "7: expected `&&`, `||` or the end"),
            ("(a == 1", "7: expected `)`"),
            ("a == 1)", "6: `)` without an open parenthesis"),
            ("a == \"x", "5: the text that begins here has no closing quote"),
            (
                "a == 1x",
                "6: after a number, only K, M or G (powers of 1024) or ns, us, ms or s (nanoseconds) is allowed",
            ),
            (
                "a == 089",
                "5: a number that begins with 0 is octal; the digits 8 and 9 are not allowed",
            ),
            ("a[b] == 1", "2: expected the index of an element, starting at 0"),
            ("a. == 1", "3: expected the name of a field after `.`"),
            ("a =~ 3", "5: expected a text, in which `*` matches any text"),
            ("é == #", "6: unexpected '#'"),
            ("a == 0xfg", "5: after 0x, only digits of base 16 are allowed"),
            ("$ctx == 1", "5: expected a `.` and a field after $ctx"),
        ] {
            check(text, expected);
        }
        check(
            "$who == 1",
            "0: there is no $who; use $name, $time, $cpu, $pid, $tid or $comm, or before a field $payload., $ctx., \
             $specific_context., $event_context., $event_header., $packet_context., $packet_header.",
        );
    }

    #[test]
    fn no_depth_and_no_length_ends_the_program() {
        assert!(expression(&"(".repeat(60_000)).is_err());
        assert!(expression(&"!".repeat(60_000)).is_err());
        assert!(expression(&format!("{}a == 1", "a == 1 || ".repeat(5_000))).is_err());
        let nested = format!("{}a == 1{}", "(".repeat(99), ")".repeat(99));
        assert!(expression(&nested).is_ok());
        assert!(expression("a == 99999999999999999999999999999999999999999").is_err());
    }
}
