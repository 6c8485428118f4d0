// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the interface's types, client and server trait from its Varlink file.

fn main() {
    varlink_generator::cargo_build("src/dev.piste.Control.varlink");
}
