// SPDX-License-Identifier: MIT OR Apache-2.0
//! What descriptors stand for, as `strace -y` prints it: `3</etc/passwd>`.

use crate::arguments::escaped;

/// Knows what the descriptors of threads stand for.
pub trait Descriptors {
    /// The name of what a descriptor stands for at the latest event, if it is known. The working directory is [`AT_FDCWD`].
    fn name(&self, tid: i32, descriptor: i32) -> Option<&str>;

    /// The same, if the latest event has made the descriptor.
    fn name_of_new(&self, tid: i32, descriptor: i32) -> Option<&str>;
}

/// The number that stands for the working directory.
pub const AT_FDCWD: i32 = -100;

/// Knows nothing: descriptors are printed as numbers.
pub struct Undecoded;

impl Descriptors for Undecoded {
    fn name(&self, _: i32, _: i32) -> Option<&str> {
        None
    }

    fn name_of_new(&self, _: i32, _: i32) -> Option<&str> {
        None
    }
}

/// Descriptors of one thread.
#[derive(Clone, Copy)]
pub(crate) struct Decoder<'a> {
    pub(crate) tid: i32,
    pub(crate) descriptors: &'a dyn Descriptors,
}

impl Decoder<'_> {
    /// `3</etc/passwd>`, or `3`. The kernel takes an `int`, also where it declares something else.
    pub(crate) fn decoded(self, value: i128) -> String {
        let descriptor = value as i32;
        let text = match descriptor {
            AT_FDCWD => "AT_FDCWD".to_owned(),
            _ => descriptor.to_string(),
        };
        text + &bracketed(self.descriptors.name(self.tid, descriptor))
    }

    /// `</etc/passwd>` behind the result of a call that has made a descriptor.
    pub(crate) fn made(self, result: i128) -> String {
        let descriptor = i32::try_from(result).ok().filter(|descriptor| *descriptor >= 0);
        bracketed(descriptor.and_then(|descriptor| self.descriptors.name_of_new(self.tid, descriptor)))
    }
}

fn bracketed(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("<{}>", escaped(name.as_bytes(), "<>")))
}
