// SPDX-License-Identifier: MIT OR Apache-2.0
//! Embeds the viewer, if it was built (`make viewer`). Without it, the server still compiles and says what is missing.

use std::path::Path;
use std::{env, fs};

const FILES: [(&str, &str); 5] = [
    ("icon.svg", "image/svg+xml"),
    ("index.html", "text/html; charset=utf-8"),
    ("viewer.js", "text/javascript; charset=utf-8"),
    ("viewer.css", "text/css; charset=utf-8"),
    ("worker.js", "text/javascript; charset=utf-8"),
];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let built = Path::new(&root).join("../../viewer/dist");
    println!("cargo::rerun-if-changed={}", built.display());
    println!("cargo::rerun-if-changed=build.rs");
    let is_there = FILES.iter().all(|(name, _)| built.join(name).is_file());
    let mut code = String::from("const FILES: &[(&str, &str, &[u8])] = &[\n");
    for (name, kind) in FILES.iter().filter(|_| is_there) {
        let path = fs::canonicalize(built.join(name)).expect("it is there");
        code += &format!(
            "    ({name:?}, {kind:?}, include_bytes!({:?})),\n",
            path.display().to_string()
        );
    }
    code += "];\n";
    let output = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&output).join("assets.rs"), code).expect("the output folder can be written");
}
