// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of the documentation that record the kernel print what its pages say, whatever else runs.

use piste_support::kernel;
use piste_support::pages::{Needs, check_examples};

#[test]
fn examples_that_record_the_kernel_print_what_their_pages_say() {
    let Some(_place) = kernel::shared_workplace() else {
        return;
    };
    check_examples(Needs::Kernel);
}
