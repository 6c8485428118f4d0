// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the BPF program and prints all that the kernel says when it rejects it. As root: `cargo run -p piste-bpf --example load`

#![allow(missing_docs)]

use std::process::ExitCode;

use piste_bpf::{Program, log};

fn main() -> ExitCode {
    match Program::check() {
        Ok(()) => {
            println!("loaded");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{}{failure}", log());
            ExitCode::FAILURE
        }
    }
}
