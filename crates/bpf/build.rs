// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles `bpf/calls.bpf.c`. Without clang, the rest builds, and the program is empty.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name| env::var(name).expect("cargo sets it");
    let sources = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../bpf");
    let object = PathBuf::from(variable("OUT_DIR")).join("calls.bpf.o");
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-env-changed=PISTE_CLANG");
    let target = match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        _ => return without_program(&object, "there is no BPF program for this processor"),
    };
    let clang = env::var("PISTE_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let multiarch = Command::new("cc").arg("-print-multiarch").output();
    let multiarch = multiarch.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let compiled = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c"])
        .arg(format!("-D__TARGET_ARCH_{target}"))
        .arg(format!("-I{}", variable("DEP_BPF_INCLUDE")))
        .arg(format!("-I/usr/include/{}", multiarch.unwrap_or_default()))
        .arg(sources.join("calls.bpf.c"))
        .arg("-o")
        .arg(&object)
        .output();
    match compiled {
        Ok(output) if output.status.success() => {}
        Ok(output) => without_program(&object, &String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            // Where it will be once it is installed.
            println!("cargo:rerun-if-changed=/usr/bin");
            without_program(&object, &format!("{clang}: {error}"));
        }
    }
}

fn without_program(object: &Path, why: &str) {
    for line in why.lines() {
        println!("cargo:warning={line}");
    }
    println!(
        "cargo:warning=Piste is built without the BPF program that records what the arguments of system calls point to"
    );
    fs::write(object, "").expect("the output folder can be written");
}
