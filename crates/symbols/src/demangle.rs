// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of functions as their authors wrote them.

/// The name that a linker's name stands for, in C++ with its parameters; absent when they are the same.
pub fn demangle(name: &str) -> Option<String> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash that tells compilations apart.
        return Some(format!("{rust:#}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    cpp_demangle::Symbol::new(name)
        .ok()?
        .demangle_with_options(&options)
        .ok()
}

/// Whether somebody who writes `wanted` means a function that demangles to `name`: with its parameters or without.
pub fn means(wanted: &str, name: &str) -> bool {
    wanted == name || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('('))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_and_cpp_are_those_of_the_source() {
        for (name, expected) in [
            ("main", None),
            ("_ZN4shop5orderEi", Some("shop::order(int)")),
            (
                "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                Some("core::fmt::Formatter::pad"),
            ),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                Some("foo::example_function"),
            ),
            ("_Zebra", None),
        ] {
            assert_eq!(demangle(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn parameters_may_be_left_out() {
        assert!(means("shop::order", "shop::order(int)"));
        assert!(means("shop::order(int)", "shop::order(int)"));
        assert!(!means("shop::ord", "shop::order(int)"));
    }
}
