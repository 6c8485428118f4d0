// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operating system's errors in plain words: "no such file or folder" instead of "No such file or directory (os error 2)".

use std::io::{Error, ErrorKind};

/// Why something failed, as the end of a sentence: `cannot read trace: no such file or folder`. An error with a text of its own keeps the
/// text.
///
/// ```
/// let error = std::fs::read("/no/such/file").unwrap_err();
/// assert_eq!(piste_reason::reason(&error), "no such file or folder");
/// ```
pub fn reason(error: &Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), error.kind()) {
        (Some(_), ErrorKind::NotFound) => "no such file or folder".into(),
        (Some(_), ErrorKind::IsADirectory) => "it is a folder".into(),
        (Some(_), ErrorKind::NotADirectory) => "a part of the path is not a folder".into(),
        (Some(_), ErrorKind::AlreadyExists) => "it exists already".into(),
        (Some(_), ErrorKind::ReadOnlyFilesystem) => "the file system is read-only".into(),
        (Some(_), _) => without_capital(text.split(" (os error").next().unwrap_or(&text)),
        // The standard library's own, when a file or a pipe ends early.
        (None, ErrorKind::UnexpectedEof) if text == "failed to fill whole buffer" => "it ends too early".into(),
        (None, _) => text,
    }
}

/// `text` as it continues a sentence.
fn without_capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if letters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_errors_continue_a_sentence_and_have_no_number() {
        let check = |number, expected| assert_eq!(reason(&Error::from_raw_os_error(number)), expected);
        check(1, "operation not permitted");
        check(2, "no such file or folder");
        check(13, "permission denied");
        check(17, "it exists already");
        check(20, "a part of the path is not a folder");
        check(21, "it is a folder");
        check(28, "no space left on device");
        check(30, "the file system is read-only");
    }

    #[test]
    fn an_error_with_a_text_of_its_own_keeps_it() {
        assert_eq!(reason(&Error::other("CPU 3 is offline")), "CPU 3 is offline");
        assert_eq!(without_capital("RPC struct is bad"), "RPC struct is bad");
        let early = std::io::Read::read_exact(&mut &b""[..], &mut [0]).unwrap_err();
        assert_eq!(reason(&early), "it ends too early");
    }
}
