// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of addresses, shown beside the addresses. What lies at an address is not in a trace: whoever reads it knows names, or does not.

use super::plan::IntegerNode;
use super::schema::{Encoding, Width};
use super::walk::Visitor;

/// Names what lies at the addresses in an event.
pub trait Symbols {
    /// False: there are no names, and nothing is to be done for them.
    const ARE_WANTED: bool = true;

    /// What lies at an address that has so many bits; `None` when nobody knows.
    fn symbol(&mut self, address: u64, bits: u32) -> Option<&str>;

    /// The same of a number, if it is an address.
    fn symbol_of(&mut self, integer: &IntegerNode, value: u64) -> Option<&str> {
        match integer.width {
            Width::Bits(bits) if Self::ARE_WANTED && integer.is_address() => self.symbol(value, bits),
            _ => None,
        }
    }
}

/// No names.
pub struct NoSymbols;

impl Symbols for NoSymbols {
    const ARE_WANTED: bool = false;

    fn symbol(&mut self, _: u64, _: u32) -> Option<&str> {
        None
    }
}

/// Shows another visitor the names of addresses: it calls [`Visitor::symbol`] where there is one.
pub struct WithSymbols<'v, V, S> {
    /// Looks at the values.
    pub visitor: &'v mut V,
    /// Has the names.
    pub symbols: &'v mut S,
}

impl<V: Visitor, S: Symbols> Visitor for WithSymbols<'_, V, S> {
    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        match self.symbols.symbol_of(integer, value) {
            Some(symbol) => self.visitor.symbol(integer, value, symbol),
            None => self.visitor.integer(integer, value),
        }
    }

    fn field(&mut self, name: &str) {
        self.visitor.field(name);
    }

    fn element(&mut self, index: u64) {
        self.visitor.element(index);
    }

    fn float(&mut self, value: f64, bits: u32) {
        self.visitor.float(value, bits);
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        self.visitor.text(bytes, encoding);
    }

    fn counted_text(&mut self, text: &[u8], whole: &[u8], encoding: Encoding) {
        self.visitor.counted_text(text, whole, encoding);
    }

    fn blob(&mut self, bytes: &[u8], media_type: Option<&str>) {
        self.visitor.blob(bytes, media_type);
    }

    fn begin_structure(&mut self) {
        self.visitor.begin_structure();
    }

    fn end_structure(&mut self) {
        self.visitor.end_structure();
    }

    fn begin_array(&mut self, count: u64, is_sequence: bool) {
        self.visitor.begin_array(count, is_sequence);
    }

    fn end_array(&mut self) {
        self.visitor.end_array();
    }

    fn begin_variant(&mut self, option: &str) {
        self.visitor.begin_variant(option);
    }

    fn end_variant(&mut self) {
        self.visitor.end_variant();
    }

    fn nothing(&mut self) {
        self.visitor.nothing();
    }
}
