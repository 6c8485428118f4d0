// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of the documentation print what its pages say.

use piste_support::pages::{Needs, check_examples};

#[test]
fn examples_print_what_their_pages_say() {
    check_examples(Needs::Nothing);
}
