// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of the documentation that record the kernel print what its pages say. They find the cause of a delay, which is another one if
//! something else has the CPUs: they need the machine to themselves.

use piste_support::kernel;
use piste_support::pages::check_examples;

#[test]
fn examples_that_record_the_kernel_print_what_their_pages_say() {
    let Some(_alone) = kernel::workplace() else { return };
    check_examples(true);
}
