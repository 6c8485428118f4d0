// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of the documentation that find the cause of a delay print what its pages say. The cause is another one if something else has the CPUs:
//! they need the machine to themselves.

use piste_support::kernel;
use piste_support::pages::{Needs, check_examples};

#[test]
fn examples_that_find_causes_print_what_their_pages_say() {
    let Some(_alone) = kernel::workplace() else { return };
    check_examples(Needs::IdleCpus);
}
