// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that cannot run here: they say why in one line, which tools/test counts, and pass.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fmt::Display;

use piste_kernel::answer::answers;
use piste_kernel::tracefs::Tracefs;

/// Says why the test that calls it does no more.
pub fn skipped(reason: &(impl Display + ?Sized)) {
    println!("skipped: {reason}");
}

/// The tracing of this machine; `None`, once said why, where a test cannot use it.
pub fn tracefs() -> Option<Tracefs> {
    let found = Tracefs::find().and_then(|tracefs| answers(&tracefs).map(|()| tracefs));
    found.inspect_err(skipped).ok()
}
