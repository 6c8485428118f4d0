// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the print format of an event says of its fields: the names of their values, and how people want to see them.
//!
//! A print format is C: a format of printf, then its arguments, which say `REC->field` for a field.
//!
//! ```text
//! "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })
//! ```
//!
//! Only what is plainly about one field is taken: an argument that is the field and nothing else, a list of names for the field's own
//! value. No expression is ever evaluated but constant ones. The text comes from whoever wrote the kernel or its modules and may be
//! anything: what is not understood says nothing.

mod constant;
mod conversion;
mod token;

use std::collections::HashMap;

use piste_ctf::{Base, Label};

use crate::format::ValueNames;
use token::{Token, inside, parts, tokens};

/// How a field is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    is_decimal: bool,
    is_hex: bool,
    is_octal: bool,
    /// A mask of CPUs or other bits.
    pub(crate) is_mask: bool,
    names: Vec<ValueNames>,
}

impl Shown {
    /// How its integers are shown, as far as that is said.
    pub(crate) fn base(&self) -> Option<Base> {
        match self {
            Shown { is_hex: true, .. } => Some(Base::Hex),
            Shown { is_octal: true, .. } => Some(Base::Octal),
            Shown { is_decimal: true, .. } => Some(Base::Decimal),
            _ => None,
        }
    }

    /// The names of its values. When there are several lists, another field decides which of them holds, and none is taken.
    pub(crate) fn names(&self) -> Option<&ValueNames> {
        let (first, rest) = self.names.split_first()?;
        rest.iter().all(|names| names == first).then_some(first)
    }
}

/// What `print` says of the fields it names.
pub(crate) fn shown(print: &str) -> HashMap<&str, Shown> {
    let tokens = tokens(print);
    let mut fields = HashMap::new();
    arguments_of_printf(&tokens, &mut fields);
    calls(&tokens, &mut fields);
    fields
}

type Fields<'a> = HashMap<&'a str, Shown>;

/// Fields that are an argument as they are.
fn arguments_of_printf<'a>(tokens: &[Token<'a>], fields: &mut Fields<'a>) {
    let is_text = |token: &Token| matches!(token, Token::Text(_));
    let format_end = tokens.iter().position(|token| !is_text(token)).unwrap_or(tokens.len());
    let format = tokens[..format_end].iter().map(|token| match token {
        Token::Text(text) => *text,
        _ => "",
    });
    let Some((Token::Sign(","), arguments)) = tokens[format_end..].split_first() else {
        return;
    };
    let conversions = conversion::bases(&format.collect::<String>());
    for (base, argument) in conversions.into_iter().zip(parts(arguments, ",")) {
        let (Some(base), Some(field)) = (base, field(argument)) else {
            continue;
        };
        let shown = fields.entry(field).or_default();
        match base {
            Base::Decimal => shown.is_decimal = true,
            Base::Hex => shown.is_hex = true,
            Base::Octal => shown.is_octal = true,
        }
    }
}

/// Fields that are handed to one of the kernel's functions for printing.
fn calls<'a>(tokens: &[Token<'a>], fields: &mut Fields<'a>) {
    for (index, token) in tokens.iter().enumerate() {
        let Token::Name(function) = *token else { continue };
        let Some(arguments) = inside(&tokens[index + 1..]) else {
            continue;
        };
        let mut arguments = parts(arguments, ",");
        let Some(subject) = arguments.next() else { continue };
        match function {
            "__print_symbolic" | "__print_symbolic_u64" => {
                if let Some(field) = field(subject) {
                    named(fields.entry(field).or_default(), false, arguments);
                }
            }
            "__print_flags" | "__print_flags_u64" => {
                if let Some(field) = field(subject).or_else(|| masked_field(subject)) {
                    let _separator = arguments.next();
                    named(fields.entry(field).or_default(), true, arguments);
                }
            }
            "__print_hex" | "__print_hex_str" | "__print_hex_dump" => {
                let subject = if function == "__print_hex_dump" {
                    arguments.nth(3)
                } else {
                    Some(subject)
                };
                if let Some(field) = subject.and_then(|subject| field(subject).or_else(|| dynamic_field(subject))) {
                    fields.entry(field).or_default().is_hex = true;
                }
            }
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                if let [Token::Name(field)] = subject {
                    fields.entry(field).or_default().is_mask = true;
                }
            }
            _ => {}
        }
    }
}

/// Adds the names of a list: `{ 0, "HI" }, { 1, "TIMER" }`. What is not constant is left out.
fn named<'a, 't>(shown: &mut Shown, is_flags: bool, list: impl Iterator<Item = &'t [Token<'a>]>)
where
    'a: 't,
{
    let mut labels = Vec::<Label>::new();
    for (value, name) in list.filter_map(named_value) {
        let is_hidden = !is_flags && labels.iter().any(|label| label.value == value);
        if !is_hidden {
            labels.push(Label { name, value });
        }
    }
    if !labels.is_empty() {
        shown.names.push(ValueNames { is_flags, labels });
    }
}

/// `{ 1 << 3, "NAME" }`
fn named_value(tokens: &[Token]) -> Option<(i64, String)> {
    let mut pair = parts(inside(tokens)?, ",");
    let value = constant::evaluate(pair.next()?)?;
    let name = pair.next()?;
    let mut text = String::new();
    for token in name {
        let Token::Text(part) = token else { return None };
        text += &token::unescaped(part);
    }
    (!text.is_empty()).then_some((value, text))
}

/// The field that an expression is, whatever it is cast to: `REC->flags`, `(void *)REC->ip`, `(REC->mac[0])`.
fn field<'a>(mut tokens: &[Token<'a>]) -> Option<&'a str> {
    use Token::{Name, Number, Sign};
    loop {
        match tokens {
            [Name("REC"), Sign("->"), Name(field)] => return Some(field),
            [Name("REC"), Sign("->"), Name(field), Sign("["), Number(_), Sign("]")] => return Some(field),
            _ => {}
        }
        let inner = inside(tokens)?;
        let rest = &tokens[inner.len() + 2..];
        if rest.is_empty() {
            tokens = inner;
        } else if token::is_type(inner) {
            tokens = rest;
        } else {
            return None;
        }
    }
}

/// The field of `REC->flags & 0xff`: its bits have the names that the list says, as far as the mask goes.
fn masked_field<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let mut sides = parts(tokens, "&");
    let (subject, mask) = (sides.next()?, sides.next()?);
    constant::evaluate(mask)?;
    sides.next().is_none().then(|| field(subject))?
}

/// The field of `__get_dynamic_array(field)`.
fn dynamic_field<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let (Token::Name("__get_dynamic_array" | "__get_rel_dynamic_array"), call) = tokens.split_first()? else {
        return None;
    };
    match inside(call)? {
        [Token::Name(field)] => Some(field),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FIELD BASE NAMES`, one a line.
    fn said(print: &str) -> String {
        let mut lines: Vec<_> = shown(print)
            .iter()
            .map(|(field, shown)| {
                let base = shown.base().map_or("-".to_owned(), |base| format!("{base:?}"));
                let mask = if shown.is_mask { " mask" } else { "" };
                let names = shown.names().map(|names| {
                    let of = if names.is_flags { '|' } else { '=' };
                    let label = |label: &Label| format!(" {}{of}{:?}", label.value, label.name);
                    names.labels.iter().map(label).collect::<String>()
                });
                format!("{field} {base}{mask}{}", names.unwrap_or_default())
            })
            .collect();
        lines.sort();
        lines.join("\n")
    }

    #[test]
    fn values_have_names() {
        let print = r#""vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TI" "MER" })"#;
        assert_eq!(said(print), r#"vec Decimal 0="HI" 1="TIMER""#);
        let print = r#""%s", __print_flags((unsigned long)REC->flags, "|", {(1 << 3) | 0x10UL, "a"}, { 0x8, "" }, { BIT, "b" }, {4, "\"c\""})"#;
        assert_eq!(said(print), r#"flags - 24|"a" 4|"\"c\"""#);
        let print = r#""%s", REC->id == 3 ? __print_symbolic(REC->id, { -1, "x" }, { 5, NULL }, { -1, "y" }) : "-""#;
        assert_eq!(said(print), r#"id - -1="x""#);
    }

    #[test]
    fn names_of_a_part_are_not_names_of_the_field() {
        assert_eq!(
            said(r#""%s", __print_symbolic(REC->data >> 8 & 7, { 0, "fixed" })"#),
            ""
        );
        assert_eq!(said(r#""%s", __print_symbolic(REC->data & 7, { 0, "fixed" })"#), "");
        assert_eq!(
            said(r#""%s", __print_flags(REC->data & ~7, "|", { 8, "up" })"#),
            r#"data - 8|"up""#
        );
        assert_eq!(
            said(r#""%s", __print_flags(REC->data & REC->mask, "|", { 8, "up" })"#),
            ""
        );
    }

    #[test]
    fn lists_that_differ_name_nothing() {
        let list = |first: &str| format!(r#"__print_symbolic(REC->reason, {{ 0, "{first}" }})"#);
        let print = format!(r#""%s", REC->isa == 1 ? {} : {}"#, list("a"), list("b"));
        assert_eq!(said(&print), "reason -");
        let print = format!(r#""%s", REC->isa == 1 ? {} : {}"#, list("a"), list("a"));
        assert_eq!(said(&print), r#"reason - 0="a""#);
    }

    #[test]
    fn bases_are_those_of_the_conversions() {
        let print = r#""%d 100%% %.*s 0x%08lx %pS mode %#o %p %*d %pI4 %pM %llu", REC->a, REC->n, REC->text, (REC->b), (void *)REC->c,
            REC->d, REC->e, 5, REC->f, REC->g, REC->h, REC->i + 1"#;
        let expected = "a Decimal\nb Hex\nc Hex\nd Octal\ne Hex\nf Decimal\ng Decimal\nh Hex";
        assert_eq!(said(print), expected);
        assert_eq!(said(r#""%02x:%02x", REC->mac[0], REC->mac[1]"#), "mac Hex");
    }

    #[test]
    fn functions_say_how_a_field_is_shown() {
        let print = r#""%s %s %s", __print_hex(__get_dynamic_array(data), __get_dynamic_array_len(data)), __get_cpumask(cpus),
            __print_hex_str(REC->uuid, 16)"#;
        assert_eq!(said(print), "cpus - mask\ndata Hex\nuuid Hex");
    }

    #[test]
    fn what_is_not_understood_says_nothing() {
        for print in [
            "",
            "\"",
            "\"%d\"",
            "\"%d\",",
            "\"%\", REC->",
            "__print_flags(",
            "__print_symbolic(REC->a, {",
            "__print_symbolic(REC->a, { , \"x\" }, { 1 / 0, \"y\" }, { 1 << 64, \"z\" })",
            "\\",
            "'",
            "é\u{0}",
        ] {
            let names = shown(print).values().any(|shown| shown.names().is_some());
            assert!(!names, "{print}");
        }
    }
}
