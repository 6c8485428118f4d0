// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where pisted looks for libraries first: in the folder of the helpers. A wheel has those there that not every system has.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Not the newer kind of entry, which does not apply to the libraries of libraries.
    println!("cargo:rustc-link-arg-bins=-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib/piste");
}
