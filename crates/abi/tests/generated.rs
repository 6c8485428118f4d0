// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes `src/generated.rs` from the contract headers and compares. After a change of the headers, write it with
//!
//!     RUSTFLAGS="--cfg piste_regenerate" cargo test -p piste-abi --test generated
//!
//! Needs libclang (Debian: libclang-dev).

use std::path::Path;

const OPENING: &str = "\
// SPDX-License-Identifier: MIT OR Apache-2.0
// Made from include/piste/abi/*.h by tests/generated.rs, which says how. Do not edit.
";

/// Plain data to zerocopy: any bytes are a value, and a value has no byte that is not one of its fields.
#[derive(Debug)]
struct PlainData;

impl bindgen::callbacks::ParseCallbacks for PlainData {
    fn add_derives(&self, _: &bindgen::callbacks::DeriveInfo<'_>) -> Vec<String> {
        ["FromBytes", "IntoBytes", "Immutable", "KnownLayout"]
            .map(|name| format!("zerocopy::{name}"))
            .to_vec()
    }
}

fn generate(headers: &Path) -> String {
    let builder = ["ring.h", "event.h", "filter.h", "protocol.h"]
        .iter()
        .fold(bindgen::builder(), |builder, name| {
            builder.header(headers.join(name).to_str().unwrap())
        });
    let bindings = builder
        .allowlist_type("piste_.*")
        .allowlist_var("PISTE_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_debug(true)
        .generate_comments(false)
        .disable_header_comment()
        .use_core()
        .formatter(bindgen::Formatter::Prettyplease)
        .parse_callbacks(Box::new(PlainData))
        .generate()
        .expect("bindgen reads the contract headers");
    format!("{OPENING}\n{bindings}")
}

#[test]
fn generated_rs_is_what_the_headers_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("src/generated.rs");
    let expected = generate(&root.join("../../include/piste/abi"));
    if cfg!(piste_regenerate) {
        std::fs::write(&path, &expected).unwrap();
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        present == expected,
        "src/generated.rs is not what include/piste/abi says; tests/generated.rs tells how to make it anew"
    );
}
