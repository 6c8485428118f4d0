// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens to statements, by recursive descent.

use super::lexer::{Kind, Token};
use super::syntax::{
    Attribute, Declaration, Declarator, Dimension, Enumerator, Member, Simple, Statement, StatementKind, TypeKind,
    TypeSyntax, Value,
};
use super::{MetadataError, Position};

/// Types in types: deeper ones would exhaust the stack, and no tracer writes them.
const DEPTH_MAX: u32 = 100;

const BLOCKS: [&str; 6] = ["trace", "stream", "event", "clock", "env", "callsite"];

const DEFINITIONS: [&str; 3] = ["struct", "enum", "variant"];

/// Words that cannot name anything, besides those that C types are made of.
const KEYWORDS: [&str; 15] = [
    "align",
    "callsite",
    "clock",
    "enum",
    "env",
    "event",
    "floating_point",
    "integer",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "variant",
];

/// Words that C types are made of.
const C_WORDS: [&str; 13] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
    "const",
];

/// The statements to the end, or to one that is none, with what is wrong with it.
pub(super) fn parse(tokens: Vec<Token>) -> (Vec<Statement>, Option<MetadataError>) {
    let mut parser = Parser {
        tokens,
        next: 0,
        depth: 0,
    };
    let mut statements = Vec::new();
    while parser.peek() != &Kind::End {
        if parser.takes(";") {
            continue;
        }
        match parser.statement() {
            Ok(statement) => statements.push(statement),
            Err(fault) => return (statements, Some(fault)),
        }
    }
    (statements, None)
}

struct Parser {
    /// The last one is `End`.
    tokens: Vec<Token>,
    next: usize,
    depth: u32,
}

type Parsed<T> = Result<T, MetadataError>;

impl Parser {
    fn peek(&self) -> &Kind {
        &self.tokens[self.next].kind
    }

    fn peek_second(&self) -> &Kind {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)].kind
    }

    fn position(&self) -> Position {
        self.tokens[self.next].position
    }

    fn advance(&mut self) -> Kind {
        let kind = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        kind
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Kind::Sign(found) if *found == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.advance();
        }
        found
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(found) if found == word)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn wants(&mut self, sign: &str) -> Parsed<()> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{sign}`"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> MetadataError {
        self.position()
            .error(format!("expected {wanted}, not {}", self.peek().shown()))
    }

    fn word(&mut self) -> Parsed<String> {
        match self.peek() {
            Kind::Word(word) => {
                let word = word.clone();
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// The name of a type or field.
    fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Kind::Word(word) if is_keyword(word) || C_WORDS.contains(&word.as_str()) => Err(self
                .position()
                .error(format!("`{word}` is a keyword and cannot be a name; `_{word}` can"))),
            _ => self.word(),
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return Err(self
                .position()
                .error(format!("types are nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    // ---- Statements ----

    fn statement(&mut self) -> Parsed<Statement> {
        let position = self.position();
        let kind = match self.peek() {
            Kind::Word(word) if word == "typedef" => {
                self.advance();
                StatementKind::Typedef(self.declaration()?)
            }
            Kind::Word(word) if word == "typealias" => self.typealias()?,
            Kind::Word(word) if BLOCKS.contains(&word.as_str()) && self.peek_second() == &Kind::Sign("{") => {
                let keyword = self.word()?;
                StatementKind::Block {
                    keyword,
                    statements: self.block()?,
                }
            }
            Kind::Word(word) if DEFINITIONS.contains(&word.as_str()) => StatementKind::Define(self.of_type()?),
            _ => self.assignment()?,
        };
        // The end of a block or file may stand for the last `;`.
        // So does, behind a definition, another one: in C's grammar they are one declaration.
        let is_list = matches!(kind, StatementKind::Define(_)) && DEFINITIONS.iter().any(|word| self.is_word(word));
        if !self.takes(";") && !is_list && !self.is("}") && self.peek() != &Kind::End {
            return Err(self.unexpected("`;`"));
        }
        Ok(Statement { position, kind })
    }

    fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.wants("{")?;
        let mut statements = Vec::new();
        while !self.takes("}") {
            if !self.takes(";") {
                statements.push(self.nested(Self::statement)?);
            }
        }
        Ok(statements)
    }

    fn assignment(&mut self) -> Parsed<StatementKind> {
        let path = self.path()?;
        if self.takes(":=") {
            return Ok(StatementKind::AssignType {
                path,
                of_type: self.of_type()?,
            });
        }
        self.wants("=")?;
        Ok(StatementKind::Assign {
            path,
            value: self.value()?,
        })
    }

    fn typealias(&mut self) -> Parsed<StatementKind> {
        self.advance();
        let of_type = self.of_type()?;
        self.wants(":=")?;
        if matches!(self.peek(), Kind::Word(word) if is_keyword(word)) {
            self.name()?;
        }
        let mut words = Vec::new();
        loop {
            match self.peek() {
                Kind::Word(word) => words.push(word.clone()),
                Kind::Sign("*") => words.push("*".into()),
                _ => break,
            }
            self.advance();
        }
        match words.is_empty() {
            true => Err(self.unexpected("a name")),
            false => Ok(StatementKind::Typealias {
                of_type,
                name: type_name(&words),
            }),
        }
    }

    /// `a.b.c`, and `a->b`, which some write for it.
    fn path(&mut self) -> Parsed<Vec<String>> {
        let mut path = vec![self.word()?];
        while self.takes(".") || self.takes("->") {
            path.push(self.word()?);
        }
        Ok(path)
    }

    fn value(&mut self) -> Parsed<Value> {
        match self.peek() {
            Kind::Text(text) => {
                let mut whole = text.clone();
                self.advance();
                // Texts that stand beside each other are one, as in C.
                while let Kind::Text(more) = self.peek() {
                    whole += more;
                    self.advance();
                }
                Ok(Value::Text(whole))
            }
            Kind::Word(_) => Ok(Value::Words(self.path()?)),
            _ => Ok(Value::Number(self.number()?)),
        }
    }

    fn number(&mut self) -> Parsed<i128> {
        let is_negative = self.takes("-");
        if !is_negative {
            self.takes("+");
        }
        let number = match self.peek() {
            Kind::Number(number) => i128::from(*number),
            Kind::Character(code) => i128::from(*code),
            _ => return Err(self.unexpected("a number")),
        };
        self.advance();
        Ok(if is_negative { -number } else { number })
    }

    // ---- Types ----

    fn of_type(&mut self) -> Parsed<TypeSyntax> {
        self.nested(Self::of_type_here)
    }

    fn of_type_here(&mut self) -> Parsed<TypeSyntax> {
        let position = self.position();
        while self.takes_word("const") {}
        let Kind::Word(word) = self.peek().clone() else {
            return Err(self.unexpected("a type"));
        };
        let has_attributes = self.peek_second() == &Kind::Sign("{");
        let kind = match word.as_str() {
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            "enum" => self.enumeration()?,
            "integer" if has_attributes => self.simple(Simple::Integer)?,
            "floating_point" if has_attributes => self.simple(Simple::Float)?,
            "string" => self.simple(Simple::Text)?,
            _ => self.named()?,
        };
        Ok(TypeSyntax { position, kind })
    }

    fn named(&mut self) -> Parsed<TypeKind> {
        let mut words = Vec::new();
        while let Kind::Word(word) = self.peek() {
            if !words.is_empty() && !C_WORDS.contains(&word.as_str()) {
                break;
            }
            let is_c = C_WORDS.contains(&word.as_str());
            words.push(word.clone());
            self.advance();
            if !is_c {
                while self.takes_word("const") {}
                break;
            }
        }
        while self.takes("*") {
            words.push("*".into());
        }
        Ok(TypeKind::Named(type_name(&words)))
    }

    fn simple(&mut self, keyword: Simple) -> Parsed<TypeKind> {
        self.advance();
        let mut attributes = Vec::new();
        // `string` alone is one too.
        if self.takes("{") {
            while !self.takes("}") {
                if self.takes(";") {
                    continue;
                }
                let position = self.position();
                let name = self.word()?;
                self.wants("=")?;
                let value = self.value()?;
                attributes.push(Attribute { position, name, value });
                if !self.is("}") {
                    self.wants(";")?;
                }
            }
        }
        Ok(TypeKind::Simple { keyword, attributes })
    }

    fn structure(&mut self) -> Parsed<TypeKind> {
        self.advance();
        let name = self.optional_name();
        let body = self.members()?;
        if name.is_none() && body.is_none() {
            return Err(self.unexpected("a name or `{`"));
        }
        let mut alignment = None;
        if self.takes_word("align") {
            self.wants("(")?;
            alignment = Some(self.count()?);
            self.wants(")")?;
        }
        Ok(TypeKind::Structure { name, body, alignment })
    }

    fn variant(&mut self) -> Parsed<TypeKind> {
        self.advance();
        let name = self.optional_name();
        let mut tag = None;
        if self.takes("<") {
            // `stream` and `event` may begin a way, the others are no names.
            if matches!(self.peek_second(), Kind::Sign(">")) {
                tag = Some(vec![self.name()?]);
            } else {
                tag = Some(self.path()?);
            }
            self.wants(">")?;
        }
        let body = self.members()?;
        if name.is_none() && body.is_none() {
            return Err(self.unexpected("a name or `{`"));
        }
        Ok(TypeKind::Variant { name, tag, body })
    }

    fn enumeration(&mut self) -> Parsed<TypeKind> {
        self.advance();
        let name = self.optional_name();
        let container = match self.takes(":") {
            true => Some(Box::new(self.of_type()?)),
            false => None,
        };
        let mut body = None;
        if self.takes("{") {
            let mut enumerators = Vec::new();
            while enumerators.is_empty() || !self.takes("}") {
                enumerators.push(self.enumerator()?);
                if !self.is("}") {
                    self.wants(",")?;
                }
            }
            body = Some(enumerators);
        }
        if name.is_none() && body.is_none() {
            return Err(self.unexpected("a name or `{`"));
        }
        Ok(TypeKind::Enumeration { name, container, body })
    }

    fn enumerator(&mut self) -> Parsed<Enumerator> {
        let label = match self.peek() {
            Kind::Text(text) => {
                let text = text.clone();
                self.advance();
                text
            }
            _ => self.word()?,
        };
        let mut range = None;
        if self.takes("=") {
            let first = self.number()?;
            let last = match self.takes("...") {
                true => self.number()?,
                false => first,
            };
            if last < first {
                return Err(self
                    .position()
                    .error(format!("the range of {label:?} ends before it begins")));
            }
            range = Some((first, last));
        }
        Ok(Enumerator { label, range })
    }

    fn members(&mut self) -> Parsed<Option<Vec<Member>>> {
        if !self.takes("{") {
            return Ok(None);
        }
        let mut members = Vec::new();
        while !self.takes("}") {
            if self.takes(";") {
                continue;
            }
            members.push(self.nested(Self::member)?);
        }
        Ok(Some(members))
    }

    fn member(&mut self) -> Parsed<Member> {
        if self.is_word("typedef") || self.is_word("typealias") {
            return Ok(Member::Local(self.statement()?));
        }
        let position = self.position();
        let of_type = self.of_type()?;
        if self.takes(";") {
            let kind = StatementKind::Define(of_type);
            return Ok(Member::Local(Statement { position, kind }));
        }
        let declarators = self.declarators()?;
        self.wants(";")?;
        Ok(Member::Fields(Declaration { of_type, declarators }))
    }

    fn declaration(&mut self) -> Parsed<Declaration> {
        Ok(Declaration {
            of_type: self.of_type()?,
            declarators: self.declarators()?,
        })
    }

    fn declarators(&mut self) -> Parsed<Vec<Declarator>> {
        let mut declarators = vec![self.declarator()?];
        while self.takes(",") {
            declarators.push(self.declarator()?);
        }
        Ok(declarators)
    }

    fn declarator(&mut self) -> Parsed<Declarator> {
        let position = self.position();
        let name = self.name()?;
        let mut dimensions = Vec::new();
        while self.takes("[") {
            dimensions.push(match self.peek() {
                Kind::Word(_) => Dimension::Path(self.path()?),
                _ => Dimension::Number(self.count()?),
            });
            self.wants("]")?;
        }
        Ok(Declarator {
            position,
            name,
            dimensions,
        })
    }

    fn count(&mut self) -> Parsed<u64> {
        let position = self.position();
        let number = self.number()?;
        u64::try_from(number).map_err(|_| position.error("a negative number is not allowed here"))
    }

    /// A name that is no part of what follows.
    fn optional_name(&mut self) -> Option<String> {
        match self.peek() {
            Kind::Word(word) if !is_keyword(word) => {
                let word = word.clone();
                self.advance();
                Some(word)
            }
            _ => None,
        }
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// A C type has many spellings: `long unsigned` is `unsigned long`.
fn type_name(words: &[String]) -> String {
    let mut words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "const")
        .collect();
    if words.iter().all(|word| C_WORDS.contains(word)) {
        words.sort_unstable();
    }
    words.join(" ")
}
