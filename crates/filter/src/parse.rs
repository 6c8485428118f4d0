// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens to an expression. `||` binds less than `&&`, that less than `!`, and `!` is about the whole comparison behind it.

use piste_ctf::read::schema::Scope;
use piste_patterns::nearest;

use crate::expression::{ANYWHERE, BitOperator, Comparison, Expression, Field, Operand, SCOPES, Step, Term, Test};
use crate::token::{Token, tokens, unescaped};
use crate::{DEPTH_MAX, FilterError, Pattern, TESTS_MAX, TEXT_BYTES_MAX};

/// As in C, from those that bind least to those that bind most.
const JOINED: &[&[BitOperator]] = &[
    &[BitOperator::Or],
    &[BitOperator::Xor],
    &[BitOperator::And],
    &[BitOperator::ShiftLeft, BitOperator::ShiftRight],
];
/// Those that bind tighter than comparisons.
const SHIFTS: &[&[BitOperator]] = &[&[BitOperator::ShiftLeft, BitOperator::ShiftRight]];

/// What stands for itself after a `$`.
const VARIABLES: [(&str, Term); 6] = [
    ("name", Term::Name),
    ("time", Term::Time),
    ("cpu", Term::Cpu),
    ("pid", Term::Pid),
    ("tid", Term::Tid),
    ("comm", Term::Comm),
];

pub(crate) fn expression(text: &str) -> Result<Expression, FilterError> {
    let mut parser = Parser::new(text)?;
    let whole = parser.any()?;
    let expression = parser.condition(whole)?;
    match parser.token() {
        Token::End => Ok(expression),
        Token::Sign(")") => Err(parser.wrong("`)` without an open parenthesis")),
        _ => Err(parser.wrong("expected `&&`, `||` or the end")),
    }
}

/// A value by itself, as in a list of columns.
pub(crate) fn operand(text: &str) -> Result<Operand, FilterError> {
    let mut parser = Parser::new(text)?;
    let operand = parser.operand()?;
    match parser.token() {
        Token::End => Ok(operand),
        _ => Err(parser.wrong("expected the end of the field")),
    }
}

/// What may stand between parentheses.
enum Node {
    Condition(Expression),
    Value(Operand),
}

struct Parser<'t> {
    tokens: Vec<(usize, Token<'t>)>,
    next: usize,
    depth: usize,
    tests: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Parser<'t>, FilterError> {
        if text.len() > TEXT_BYTES_MAX {
            let reason = format!("it has {} bytes; at most {TEXT_BYTES_MAX} are allowed", text.len());
            // Where a character begins.
            let limit = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
            return Err(FilterError::at(limit.unwrap_or(0), reason));
        }
        Ok(Parser {
            tokens: tokens(text)?,
            next: 0,
            depth: 0,
            tests: 0,
        })
    }

    fn any(&mut self) -> Result<Node, FilterError> {
        self.list("||", Parser::all, Expression::Or)
    }

    fn all(&mut self) -> Result<Node, FilterError> {
        self.list("&&", Parser::one, Expression::And)
    }

    fn list(
        &mut self,
        sign: &str,
        part: fn(&mut Self) -> Result<Node, FilterError>,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Result<Node, FilterError> {
        let first = part(self)?;
        if !self.is_at(sign) {
            return Ok(first);
        }
        let mut parts = vec![self.condition(first)?];
        while self.takes(sign) {
            let next = part(self)?;
            parts.push(self.condition(next)?);
        }
        Ok(Node::Condition(join(parts)))
    }

    fn one(&mut self) -> Result<Node, FilterError> {
        if !self.takes("!") {
            return self.comparison();
        }
        self.deeper()?;
        let inner = self.one()?;
        self.depth -= 1;
        let inner = self.condition(inner)?;
        Ok(Node::Condition(Expression::Not(Box::new(inner))))
    }

    /// `a == b`, `a & b`, or what else may stand between parentheses.
    fn comparison(&mut self) -> Result<Node, FilterError> {
        let mut node = self.joined(SHIFTS)?;
        let join = JOINED
            .iter()
            .flat_map(|level| level.iter())
            .find(|operator| self.is_at(operator.sign()));
        for level in (0..JOINED.len() - SHIFTS.len()).rev() {
            node = self.more(node, JOINED[level], &JOINED[level + 1..])?;
        }
        let left = match node {
            Node::Value(left) => left,
            condition => return Ok(condition),
        };
        let position = self.position();
        let Token::Sign(sign) = *self.token() else {
            return Ok(Node::Value(left));
        };
        let comparison = match Comparison::of_sign(sign) {
            Some(comparison) => comparison,
            None if ["=~", "!~", "~"].contains(&sign) => return self.like(left),
            None => return Ok(Node::Value(left)),
        };
        // To C, `a & b == c` is `a & (b == c)`, which nobody means.
        if let Some(join) = join {
            let sign = join.sign();
            return Err(self.wrong(&format!("write `(a {sign} b) == c`, with parentheses")));
        }
        self.next += 1;
        let right = self.value_of(position, SHIFTS)?;
        self.test(Test::Compare {
            left,
            position,
            comparison,
            right,
        })
    }

    /// Values with the operators of these levels between them, of which the last ones bind tightest.
    fn joined(&mut self, levels: &[&[BitOperator]]) -> Result<Node, FilterError> {
        let Some((operators, tighter)) = levels.split_first() else {
            return self.primary();
        };
        let first = self.joined(tighter)?;
        self.more(first, operators, tighter)
    }

    /// What operators of one level join to a value.
    fn more(
        &mut self,
        first: Node,
        operators: &[BitOperator],
        tighter: &[&[BitOperator]],
    ) -> Result<Node, FilterError> {
        let mut node = first;
        while let Node::Value(left) = node {
            let Some(operator) = operators.iter().find(|operator| self.is_at(operator.sign())) else {
                return Ok(Node::Value(left));
            };
            let position = self.position();
            self.next += 1;
            let right = self.value_of(position, tighter)?;
            self.count()?;
            node = Node::Value(Operand {
                position: left.position,
                term: Term::Bits {
                    left: Box::new(left),
                    operator: *operator,
                    position,
                    right: Box::new(right),
                },
            });
        }
        Ok(node)
    }

    /// The value on the right of an operator.
    fn value_of(&mut self, operator: usize, levels: &[&[BitOperator]]) -> Result<Operand, FilterError> {
        match self.joined(levels)? {
            Node::Value(right) => Ok(right),
            Node::Condition(_) => Err(FilterError::at(
                operator,
                "the right side of this operator is a condition, not a value",
            )),
        }
    }

    /// `operand =~ "pattern"`; the sign comes next. `~` is how tracefs writes `=~`.
    fn like(&mut self, operand: Operand) -> Result<Node, FilterError> {
        let position = self.position();
        let is_negated = self.takes("!~");
        self.next += usize::from(!is_negated);
        let pattern_position = self.position();
        let Token::Quoted(content) = *self.token() else {
            return Err(self.wrong("expected a pattern in quotes, in which `*` matches any text"));
        };
        let pattern = Pattern::parse(content, pattern_position + 1)?;
        self.next += 1;
        self.test(Test::Like {
            operand,
            position,
            is_negated,
            pattern_position,
            pattern,
        })
    }

    fn primary(&mut self) -> Result<Node, FilterError> {
        let opened = self.position();
        if self.takes("(") {
            self.deeper()?;
            let inner = self.any()?;
            self.depth -= 1;
            return match self.token() {
                Token::Sign(")") => {
                    self.next += 1;
                    Ok(inner)
                }
                Token::End => Err(FilterError::at(opened, "this parenthesis is not closed")),
                _ => Err(self.wrong("expected `&&`, `||` or `)`")),
            };
        }
        if *self.token() == Token::Word("exists") && self.tokens[self.next + 1].1 == Token::Sign("(") {
            self.next += 2;
            let position = self.position();
            let Term::Field(field) = self.operand()?.term else {
                return Err(FilterError::at(position, "expected a field"));
            };
            if !self.takes(")") {
                return Err(self.wrong("expected `)`"));
            }
            return self.test(Test::Exists { position, field });
        }
        self.operand().map(Node::Value)
    }

    /// `~a`; the sign is taken.
    fn inverted(&mut self, position: usize) -> Result<Operand, FilterError> {
        self.deeper()?;
        let inner = self.value_of(position, &[])?;
        self.depth -= 1;
        self.count()?;
        let all = Operand {
            position,
            term: Term::Integer(-1),
        };
        Ok(Operand {
            position,
            term: Term::Bits {
                left: Box::new(inner),
                operator: BitOperator::Xor,
                position,
                right: Box::new(all),
            },
        })
    }

    fn operand(&mut self) -> Result<Operand, FilterError> {
        let position = self.position();
        let term = match *self.token() {
            Token::Integer(number) => Term::Integer(number),
            Token::Float(number) => Term::Float(number),
            Token::Quoted(content) => Term::Text(unescaped(content, position + 1)?.into()),
            Token::Sign("~") => {
                self.next += 1;
                return self.inverted(position);
            }
            Token::Sign("-") => {
                self.next += 1;
                match *self.token() {
                    Token::Integer(number) => Term::Integer(-number),
                    Token::Float(number) => Term::Float(-number),
                    _ => return Err(self.wrong("expected a number after `-`")),
                }
            }
            Token::Word("true") => Term::Integer(1),
            Token::Word("false") => Term::Integer(0),
            Token::Word("name") => Term::Name,
            Token::Word(word) => {
                self.next += 1;
                let term = self.field(ANYWHERE, vec![Step::Name(word.into())])?;
                return Ok(Operand { position, term });
            }
            Token::Variable(variable) => match VARIABLES.into_iter().find(|(known, _)| *known == variable) {
                Some((_, term)) => term,
                None => {
                    let term = self.scoped(variable)?;
                    return Ok(Operand { position, term });
                }
            },
            _ => return Err(self.wrong("expected a field, a number or a string")),
        };
        self.next += 1;
        Ok(Operand { position, term })
    }

    /// `$payload.x`
    fn scoped(&mut self, variable: &str) -> Result<Term, FilterError> {
        let Some((_, scopes)) = SCOPES.iter().find(|(known, _)| *known == variable) else {
            return Err(self.wrong(&no_such_variable(variable)));
        };
        self.next += 1;
        if *self.token() != Token::Sign(".") {
            return Err(self.wrong(&format!("expected a `.` and a field after ${variable}")));
        }
        self.field(scopes, vec![])
    }

    /// What stands behind the first name of a field.
    fn field(&mut self, scopes: &'static [Scope], mut path: Vec<Step>) -> Result<Term, FilterError> {
        loop {
            if self.takes(".") {
                let Token::Word(name) = *self.token() else {
                    return Err(self.wrong("expected the name of a field after `.`"));
                };
                path.push(Step::Name(name.into()));
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
                if !self.takes("]") {
                    return Err(self.wrong("expected `]`"));
                }
            } else {
                return Ok(Term::Field(Field { scopes, path }));
            }
        }
    }

    fn test(&mut self, test: Test) -> Result<Node, FilterError> {
        self.count()?;
        Ok(Node::Condition(Expression::Test(test)))
    }

    /// What is true or false: also `a & b`, which is true when a bit is left.
    fn condition(&mut self, node: Node) -> Result<Expression, FilterError> {
        let operand = match node {
            Node::Condition(expression) => return Ok(expression),
            Node::Value(operand) => operand,
        };
        let (left, position, comparison, right) = match operand.term {
            Term::Bits {
                left,
                operator: BitOperator::And,
                position,
                right,
            } => (*left, position, Comparison::Bits, *right),
            Term::Bits { position, .. } => {
                let term = Term::Integer(0);
                (operand, position, Comparison::NotEqual, Operand { position, term })
            }
            _ => return Err(self.wrong("expected a comparison: ==, !=, <, <=, >, >=, =~, !~ or &")),
        };
        Ok(Expression::Test(Test::Compare {
            left,
            position,
            comparison,
            right,
        }))
    }

    fn count(&mut self) -> Result<(), FilterError> {
        self.tests += 1;
        match self.tests > TESTS_MAX {
            true => Err(self.wrong(&format!("more than {TESTS_MAX} comparisons"))),
            false => Ok(()),
        }
    }

    fn deeper(&mut self) -> Result<(), FilterError> {
        self.depth += 1;
        match self.depth > DEPTH_MAX {
            true => Err(self.wrong(&format!("more than {DEPTH_MAX} parentheses and `!` are open"))),
            false => Ok(()),
        }
    }

    fn token(&self) -> &Token<'t> {
        &self.tokens[self.next].1
    }

    fn position(&self) -> usize {
        self.tokens[self.next].0
    }

    fn is_at(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(there) if *there == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = self.is_at(sign);
        self.next += usize::from(is_there);
        is_there
    }

    fn wrong(&self, reason: &str) -> FilterError {
        FilterError::at(self.position(), reason)
    }
}

fn no_such_variable(variable: &str) -> String {
    let variables = VARIABLES.iter().map(|(known, _)| *known);
    let near = nearest(variable, variables.chain(SCOPES.map(|(known, _)| known)), 1);
    let near = near
        .first()
        .map_or(String::new(), |near| format!(" (did you mean ${near}?)"));
    let scopes = SCOPES.map(|(scope, _)| format!("${scope}.")).join(", ");
    format!("there is no ${variable}{near}; use $name, $time, $cpu, $pid, $tid or $comm, or before a field {scopes}")
}
