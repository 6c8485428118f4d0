// SPDX-License-Identifier: MIT OR Apache-2.0
//! The comments of a source file, and the files of this project that they name.
//!
//! A word of a comment names a file if it ends as sources do (`architecture.rs`, `piste/ring.h`), or if it is a path that begins with a folder of
//! the project's root (`tools/test`, `docs/guide`). Words with characters that no name here has, such as `*.rs`, and with placeholders in
//! capitals, such as `crates/NAME`, name none. Files that programs write have other endings, so they are not meant.

use std::path::Path;

/// How names of sources end.
const ENDINGS: [&str; 9] = [".rs", ".c", ".h", ".cc", ".cpp", ".py", ".md", ".toml", ".tsv"];

/// How comments are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `//` to the end of the line.
    Rust,
    /// The same, and `/*` to `*/`.
    C,
    /// `# ` to the end of the line, and texts between `"""`.
    Script,
}

impl Notation {
    /// That of a file, by its name and its first line; `None` if it is no source.
    pub fn of(path: &Path, text: &str) -> Option<Notation> {
        let name = path.file_name()?.to_str()?;
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("rs") => Some(Notation::Rust),
            Some("c" | "h" | "cc" | "cpp") => Some(Notation::C),
            Some("py" | "toml") => Some(Notation::Script),
            None if name == "Makefile" || text.starts_with("#!") => Some(Notation::Script),
            _ => None,
        }
    }
}

/// A file that a comment names.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The line that names it, from 1.
    pub line: usize,
    /// As it is written there: a path, or a name alone.
    pub name: String,
}

/// The files that the comments of a source name. `folders` are those of the project's root.
pub fn named_files(text: &str, notation: Notation, folders: &[&str]) -> Vec<NamedFile> {
    let mut named = Vec::new();
    for (line, comment) in comments(text, notation) {
        for word in comment.split(|c: char| c.is_whitespace() || "`'\"()[],;=|".contains(c)) {
            let name = word.trim_matches(['<', '>', ':', '?', '!']);
            let name = name.trim_end_matches(['.', '/']).to_owned();
            if is_file(&name, folders) {
                named.push(NamedFile { line, name });
            }
        }
    }
    named
}

fn is_file(name: &str, folders: &[&str]) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_placeholder =
        |part: &str| part.len() > 1 && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if name.starts_with('/') || !name.chars().all(is_plain) || name.split('/').any(is_placeholder) {
        return false;
    }
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_source = ENDINGS.iter().filter_map(|ending| file.strip_suffix(ending));
    let mut stems = is_source.filter(|stem| !stem.is_empty() && !stem.contains('.'));
    let first = folder.split('/').next().unwrap_or_default();
    stems.next().is_some() || folders.contains(&first)
}

/// The parts of a text that are comments, with the numbers of their lines.
fn comments(text: &str, notation: Notation) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // In a comment, or a text, of several lines: what ends it.
    let mut until: Option<&str> = None;
    for (line, number) in text.lines().zip(1..) {
        let (comment, goes_on) = match (until, notation) {
            (Some(end), _) => match line.split_once(end) {
                Some((comment, _)) => (Some(comment), None),
                None => (Some(line), Some(end)),
            },
            (None, Notation::Rust) => (behind(line, "//"), None),
            (None, Notation::C) => match behind(line, "/*") {
                Some(rest) => up_to(rest, "*/"),
                None => (behind(line, "//"), None),
            },
            (None, Notation::Script) => match line.split_once("\"\"\"") {
                Some((_, rest)) => up_to(rest, "\"\"\""),
                None => (behind(line, "# "), None),
            },
        };
        until = goes_on;
        found.extend(comment.map(|comment| (number, comment)));
    }
    found
}

/// What is behind a mark that begins the line or a word of it.
fn behind<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let mut places = line.match_indices(mark).map(|(place, _)| place);
    let place = places.find(|&place| line[..place].chars().next_back().is_none_or(char::is_whitespace))?;
    Some(&line[place + mark.len()..])
}

/// What is before an end, or everything, and that the end is still to come.
fn up_to<'a>(text: &'a str, end: &'static str) -> (Option<&'a str>, Option<&'static str>) {
    match text.split_once(end) {
        Some((comment, _)) => (Some(comment), None),
        None => (Some(text), Some(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notation: Notation, text: &str, expected: &[(usize, &str)]) {
        let found = named_files(text, notation, &["crates", "tools"]);
        let found: Vec<(usize, &str)> = found.iter().map(|file| (file.line, file.name.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn comments_name_sources_and_paths_from_the_root() {
        check(
            Notation::Rust,
            "//! Next: `ring.rs`, then include/piste/ring.h.\nlet x = \"old.rs\"; // See tools/test: it runs (crates/ring).",
            &[
                (1, "ring.rs"),
                (1, "include/piste/ring.h"),
                (2, "tools/test"),
                (2, "crates/ring"),
            ],
        );
    }

    #[test]
    fn patterns_placeholders_addresses_and_what_programs_write_name_none() {
        check(
            Notation::Rust,
            "// crates/NAME and src/*.rs, https://rustup.rs, /usr/include/stdio.h, a.b.c, metadata, index/default_1.idx, read/write, .h",
            &[],
        );
    }

    #[test]
    fn comments_of_several_lines_end() {
        check(
            Notation::C,
            "/*\n * As <piste/ring.h> says.\n */\n#include \"gone.h\"\nint x; /* slow.c */ int y; // waits.c\n",
            &[(2, "piste/ring.h"), (5, "slow.c")],
        );
        check(
            Notation::Script,
            "#!/bin/sh\n# tools/fuzz, with\ncat old.py \"$#\"\nprintf '\n#include <old.h>\n'\n",
            &[(2, "tools/fuzz")],
        );
        check(
            Notation::Script,
            "\"\"\"One: results.py.\n\nAnd scale.py.\n\"\"\"\nx = 'old.py'  # new.py\n",
            &[(1, "results.py"), (3, "scale.py"), (5, "new.py")],
        );
    }
}
