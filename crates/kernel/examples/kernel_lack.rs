// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints why the kernel cannot be traced here, and what would mend it; prints nothing where it can. For tests and scripts:
//! `tools/kernel-lack`.

use piste_kernel::answer::answers;
use piste_kernel::tracefs::Tracefs;

fn main() {
    if let Err(lack) = Tracefs::find().and_then(|tracefs| answers(&tracefs)) {
        println!("{lack}");
    }
}
