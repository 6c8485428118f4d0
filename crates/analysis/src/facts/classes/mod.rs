// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which classes of events say what, and in which fields: the names of Linux kernel traces, with the spellings that tracers and their
//! versions have given them. Everything about a class is in one place, by what it is about.

mod calls;
mod devices;
mod interrupts;
mod programs;
mod state_dump;
mod threads;

use super::fact::Fact;
use super::values::Values;
use crate::names::{Name, Names};

/// A class of events.
pub(super) struct Class {
    /// Its names, with `|` between them.
    spellings: &'static str,
    /// The fields that are asked for, each with its spellings.
    pub(super) fields: &'static [&'static str],
    /// What they say.
    pub(super) fact: Make,
}

/// Makes a fact of the values of an event's fields, by their order in [`Class::fields`], and of the name in that of its class (of the system
/// call, or of what a CPU calls its own). `None` when a field is missing without which there is no fact.
pub(super) type Make = for<'f> fn(&Values<'f>, Name, &mut Names) -> Option<Fact<'f>>;

/// `class!("NAME|OTHER_NAME", [field: "spelling|other_spelling", ..], |values| FACT)`: in the fact, `values.number(field)` and the like are
/// the fields' values. `|values, name, names|` takes what else a fact may be made of.
macro_rules! class {
    ($spellings:literal, [$($field:ident: $asked:literal),* $(,)?], |$values:ident| $fact:expr) => {
        class!($spellings, [$($field: $asked),*], |$values, _name, _names| $fact)
    };
    (
        $spellings:literal,
        [$($field:ident: $asked:literal),* $(,)?],
        |$values:ident, $name:ident, $names:ident| $fact:expr
    ) => {{
        fn fact<'f>($values: &Values<'f>, $name: Name, $names: &mut Names) -> Option<Fact<'f>> {
            #[allow(dead_code, non_camel_case_types, reason = "they are names of fields, or there are none")]
            enum Index { $($field),* }
            $(let $field = Index::$field as usize;)*
            Some($fact)
        }
        Class {
            spellings: $spellings,
            fields: &[$($asked),*],
            fact,
        }
    }};
}
use class;

/// Those that are known by their whole names.
static CLASSES: [&[Class]; 6] = [
    &threads::CLASSES,
    &calls::CLASSES,
    &interrupts::CLASSES,
    &state_dump::CLASSES,
    &devices::CLASSES,
    &programs::CLASSES,
];

/// The class of events that are called so, and the name in theirs; `None` when they say nothing that is looked at.
pub(super) fn of(class: &str) -> Option<(&'static Class, String)> {
    let is_called = |known: &&Class| known.spellings.split('|').any(|spelling| spelling == class);
    if let Some(known) = CLASSES.iter().copied().flatten().find(is_called) {
        return Some((known, String::new()));
    }
    interrupts::of(class).or_else(|| calls::of(class))
}

/// Says nothing but on which thread its event happened.
pub(super) fn other<'f>(_: &Values<'f>, _: Name, _: &mut Names) -> Option<Fact<'f>> {
    Some(Fact::Other)
}

/// Those of which the thread may wait from then on: switches and entries of calls.
pub(super) fn may_wait(class: &Class) -> bool {
    is_switch(class) || calls::is_entry(class)
}

/// Those of [`threads`] that say of themselves on which thread they happened.
pub(super) fn is_switch(class: &Class) -> bool {
    class.spellings == threads::SWITCH
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a class: the fields that are asked for, and the name in its own.
    fn check(class: &str, expected: Option<(&str, &str)>) {
        let found = of(class).map(|(class, name)| (class.fields.join(" "), name));
        let expected = expected.map(|(fields, name)| (fields.to_owned(), name.to_owned()));
        assert_eq!(found, expected, "{class}");
    }

    #[test]
    fn classes_are_known_by_every_spelling() {
        for class in ["softirq_entry", "irq_softirq_entry"] {
            check(class, Some(("vec", "")));
        }
        for (class, name) in [
            ("syscall_entry_getpid", "getpid"),
            ("sys_getpid", "getpid"),
            ("compat_syscall_entry_getpid", "compat_getpid"),
            ("compat_sys_getpid", "compat_getpid"),
        ] {
            check(class, Some(("", name)));
        }
        for (class, name) in [
            ("syscall_entry_futex", "futex"),
            ("sys_futex", "futex"),
            ("compat_sys_futex", "compat_futex"),
        ] {
            check(class, Some(("uaddr op val", name)));
        }
        check("syscall_exit_read", Some(("ret", "read")));
        check("compat_syscall_exit_read", Some(("ret", "compat_read")));
        check("exit_syscall", Some(("ret", "")));
        check("x86_irq_vectors_local_timer_entry", Some(("", "local_timer")));
        check("irq_vectors_local_timer_exit", Some(("", "local_timer")));
        check("mm_page_free", Some(("order", "")));
        check("lttng_ust_libc:free", Some(("ptr", "")));
        check("sched:sched_switch", None);
        check("block_plug", None);
    }

    #[test]
    fn no_class_is_there_twice() {
        let all = CLASSES.iter().copied().flatten();
        let mut spellings: Vec<&str> = all.flat_map(|class| class.spellings.split('|')).collect();
        let count = spellings.len();
        spellings.sort_unstable();
        spellings.dedup();
        assert_eq!(spellings.len(), count);
        let switches = CLASSES.iter().copied().flatten().filter(|class| is_switch(class));
        assert_eq!(switches.count(), 1);
    }
}
