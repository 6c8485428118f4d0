// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types, client and server trait of the interface, generated from `dev.piste.Control.varlink`, which documents them.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    unreachable_pub,
    unused_imports,
    clippy::all,
    clippy::pedantic
)]

include!(concat!(env!("OUT_DIR"), "/dev.piste.Control.rs"));
