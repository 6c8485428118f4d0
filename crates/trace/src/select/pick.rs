// SPDX-License-Identifier: MIT OR Apache-2.0
//! One value of an event, shown to a visitor as if there were nothing else.

use piste_ctf::read::packet::Event;
use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Encoding;
use piste_ctf::read::walk::Visitor;

use super::values::{Interest, Path, Wanted};
use crate::stream::Stream;
use crate::symbols::{self, OfEvent};

impl Wanted {
    /// Shows the value that is wanted, if the event has it: for one that was wanted alone. Whether it was there.
    pub(crate) fn show<'t>(
        &self,
        stream: &mut Stream<'t>,
        event: &Event<'t>,
        visitor: &mut impl Visitor,
        mut symbols: Option<OfEvent<'_>>,
    ) -> bool {
        let mut was_there = false;
        for (scope, interest) in &self.scopes {
            let mut pick = Pick {
                visitor,
                path: Path::new(interest),
                inside: 0,
                was_there: false,
            };
            let read = symbols::visit(stream, event, *scope, &mut pick, symbols.as_mut());
            was_there |= pick.was_there && read.is_ok();
        }
        was_there
    }
}

struct Pick<'w, 'v, V> {
    visitor: &'v mut V,
    path: Path<'w>,
    /// Structures, arrays and variants around, within the wanted value.
    inside: u32,
    was_there: bool,
}

impl<V: Visitor> Pick<'_, '_, V> {
    fn is_wanted(&mut self) -> bool {
        let is_it = self.path.comes.is_some_and(Interest::is_wanted);
        self.was_there |= is_it;
        self.inside > 0 || is_it
    }

    fn begin(&mut self, show: impl FnOnce(&mut V)) {
        if self.is_wanted() {
            self.inside += 1;
            show(self.visitor);
        } else {
            self.path.enter();
        }
    }

    fn end(&mut self, show: impl FnOnce(&mut V)) {
        if self.inside > 0 {
            self.inside -= 1;
            show(self.visitor);
            // Those around it are of no interest within.
            self.path.comes = None;
        } else {
            self.path.leave();
        }
    }
}

impl<V: Visitor> Visitor for Pick<'_, '_, V> {
    fn field(&mut self, name: &str) {
        match self.inside {
            0 => self.path.next_field(),
            _ => {
                self.path.comes = None;
                self.visitor.field(name);
            }
        }
    }

    fn element(&mut self, index: u64) {
        match self.inside {
            0 => self.path.come(index),
            _ => {
                self.path.comes = None;
                self.visitor.element(index);
            }
        }
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if self.is_wanted() {
            self.visitor.integer(integer, value);
        }
    }

    fn symbol(&mut self, integer: &IntegerNode, value: u64, symbol: &str) {
        if self.is_wanted() {
            self.visitor.symbol(integer, value, symbol);
        }
    }

    fn float(&mut self, value: f64, bits: u32) {
        if self.is_wanted() {
            self.visitor.float(value, bits);
        }
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        if self.is_wanted() {
            self.visitor.text(bytes, encoding);
        }
    }

    fn counted_text(&mut self, text: &[u8], whole: &[u8], encoding: Encoding) {
        if self.is_wanted() {
            self.visitor.counted_text(text, whole, encoding);
        }
    }

    fn blob(&mut self, bytes: &[u8], media_type: Option<&str>) {
        if self.is_wanted() {
            self.visitor.blob(bytes, media_type);
        }
    }

    fn nothing(&mut self) {
        if self.is_wanted() {
            self.visitor.nothing();
        }
    }

    fn begin_structure(&mut self) {
        self.begin(V::begin_structure);
    }

    fn end_structure(&mut self) {
        self.end(V::end_structure);
    }

    fn begin_array(&mut self, count: u64, is_sequence: bool) {
        self.begin(|visitor| visitor.begin_array(count, is_sequence));
    }

    fn end_array(&mut self) {
        self.end(V::end_array);
    }

    fn begin_variant(&mut self, option: &str) {
        match self.inside {
            0 => self.path.enter_option(option),
            _ => {
                self.inside += 1;
                self.visitor.begin_variant(option);
            }
        }
    }

    fn end_variant(&mut self) {
        self.end(V::end_variant);
    }
}
