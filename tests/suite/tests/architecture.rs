// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table and the invariants of ARCHITECTURE.md that a file's text shows: who may use whom, where `unsafe` stands, what the
//! contract headers may hold; and that the files that comments name exist. Needs no build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::build_tree::repository;
use piste_support::comments::{Notation, named_files};

/// Crates that may hold `unsafe`: those that share memory, and the one that reads the time stamp counter.
const MAY_BE_UNSAFE: [&str; 5] = ["abi", "bpf", "kernel", "latency", "ring"];

/// The folders of the repository. Others beside them are made by builds.
const FOLDERS: [&str; 11] = [
    ".ci",
    "bench",
    "crates",
    "docs",
    "examples",
    "include",
    "packaging",
    "runtime",
    "tests",
    "tools",
    "viewer",
];

/// Files of others, and of examples, that comments name.
const FILES_OF_OTHERS: [&str; 3] = ["sys/sdt.h", "app.c", "shop.c"];

/// Where each folder of C may include from, relative to include/piste.
const MAY_INCLUDE: [(&str, &[&str]); 3] = [
    ("include/piste/abi", &["abi/"]),
    ("include/piste", &["abi/", ""]),
    ("runtime", &["abi/", ""]),
];

/// Which crates of ours each crate may use, as the table of ARCHITECTURE.md has it: `| crates/NAME | what it is | what it may use |`.
fn may_use() -> BTreeMap<String, Vec<String>> {
    let text = read(&repository().join("ARCHITECTURE.md"));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `crates/"));
    let in_backticks = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|row| {
        let (name, rest) = row.split_once("` |").expect("a row begins with the crate");
        let (_, used) = rest
            .trim_end_matches(" |")
            .rsplit_once(" | ")
            .expect("a row has three columns");
        (name.to_owned(), in_backticks(used))
    })
    .collect()
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let may_use = may_use();
    let known: Vec<String> = crates().iter().map(|folder| file_name(folder)).collect();
    for (name, used) in &may_use {
        assert!(known.contains(name), "the table has crates/{name}, which is not there");
        let is_there = |used: &String| known.contains(used) || repository().join(used).is_dir();
        assert!(used.iter().all(is_there), "crates/{name}: {used:?}");
    }
    for folder in crates() {
        let name = file_name(&folder);
        let allowed = may_use.get(&name);
        let allowed = allowed.unwrap_or_else(|| panic!("crates/{name} is not in the table of ARCHITECTURE.md"));
        let manifest = read(&folder.join("Cargo.toml"));
        for used in own_dependencies(&manifest) {
            assert!(
                used == name || allowed.contains(&used),
                "crates/{name} uses crates/{used}; it may use {allowed:?}"
            );
        }
    }
}

/// Otherwise `cargo install` of one of them builds them, and all that uses them, once more.
#[test]
fn piste_and_pisted_alone_use_crates_with_the_same_features_as_together() {
    let used = |packages: &[&str]| -> BTreeSet<String> {
        let mut tree = Command::new("cargo");
        tree.args([
            "tree",
            "--locked",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p} {f}",
        ]);
        packages
            .iter()
            .for_each(|package| _ = tree.args(["--package", package]));
        let listed = tree.current_dir(repository()).output().expect("cargo runs");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed = String::from_utf8(listed.stdout).expect("UTF-8");
        listed
            .lines()
            .map(|line| line.trim_end_matches(" (*)").to_owned())
            .collect()
    };
    let together = used(&["piste", "pisted"]);
    for package in ["piste", "pisted"] {
        let alone = used(&[package]);
        let others: Vec<&String> = alone.difference(&together).collect();
        assert!(
            others.is_empty(),
            "{package}: {others:?}; crates/control has the place for what pisted lacks"
        );
    }
}

#[test]
fn nothing_uses_the_tests_and_the_benchmarks() {
    for folder in crates() {
        let manifest = read(&folder.join("Cargo.toml"));
        for forbidden in ["piste-suite", "piste-support", "tests/", "bench/"] {
            assert!(!manifest.contains(forbidden), "{folder:?} uses {forbidden}");
        }
    }
}

#[test]
fn unsafe_stands_only_where_it_has_to() {
    for folder in crates() {
        let name = file_name(&folder);
        let unsafe_lines = lines_with_unsafe(&folder);
        if !MAY_BE_UNSAFE.contains(&name.as_str()) {
            assert_eq!(unsafe_lines, Vec::<String>::new(), "`unsafe` in crates/{name}");
        }
    }
    // So that the search finds what it looks for.
    assert!(!lines_with_unsafe(&repository().join("crates/ring")).is_empty());
}

#[test]
fn c_files_include_only_what_the_table_allows() {
    for (folder, allowed) in MAY_INCLUDE {
        for file in files(&repository().join(folder), &["h", "c"], folder == "runtime") {
            for included in own_includes(&file) {
                assert!(
                    allowed
                        .iter()
                        .any(|prefix| included.starts_with(prefix) && (!prefix.is_empty() || !included.contains('/'))),
                    "{} includes {included}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn contract_headers_hold_data_only() {
    let mut declarations = 0;
    for file in files(&repository().join("include/piste/abi"), &["h"], false) {
        let text = without_comments(&read(&file));
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            declarations += usize::from(line.ends_with(';'));
            for word in words(line) {
                let forbidden = [
                    "long",
                    "_Atomic",
                    "size_t",
                    "uintptr_t",
                    "void",
                    "wchar_t",
                    "double",
                    "float",
                    "bool",
                ];
                assert!(!forbidden.contains(&word), "{}: {word}: {line}", file.display());
            }
            assert!(!line.contains('*'), "{}: a pointer: {line}", file.display());
            let bit_field = line.contains(':') && line.ends_with(';');
            assert!(
                !bit_field || line.contains("PISTE_ABI_SIZE"),
                "{}: a bit-field: {line}",
                file.display()
            );
            let plain = words(line)
                .next()
                .is_some_and(|word| ["int", "unsigned", "char", "short"].contains(&word));
            assert!(!plain, "{}: a type without a fixed width: {line}", file.display());
        }
    }
    assert!(declarations > 50, "only {declarations} declarations were found");
}

#[test]
fn each_contract_struct_is_followed_by_its_size() {
    for file in files(&repository().join("include/piste/abi"), &["h"], false) {
        let text = without_comments(&read(&file));
        for (position, _) in text.match_indices("\nstruct piste_") {
            let declaration = &text[position + 1..];
            let name = words(declaration).nth(1).expect("a struct has a name");
            assert!(
                text.contains(&format!("PISTE_ABI_SIZE(struct {name},")),
                "{}: no PISTE_ABI_SIZE(struct {name}, ...)",
                file.display()
            );
        }
    }
}

#[test]
fn ctf_and_analysis_do_no_input_or_output() {
    let sources =
        ["crates/ctf/src", "crates/analysis/src"].map(|folder| files(&repository().join(folder), &["rs"], true));
    for file in sources.into_iter().flatten() {
        for forbidden in ["std::fs", "std::net", "std::io", "std::process", "std::os", "std::env"] {
            assert!(!read(&file).contains(forbidden), "{} uses {forbidden}", file.display());
        }
    }
}

#[test]
fn source_files_open_with_their_licence() {
    let mut checked = 0;
    for folder in ["include", "runtime", "crates", "examples", "tests"] {
        let licence = if ["include", "runtime"].contains(&folder) {
            "MIT"
        } else {
            "MIT OR Apache-2.0"
        };
        for file in files(&repository().join(folder), &["h", "c", "cc", "rs"], true) {
            // Their first line says what the compiler must say.
            if file.starts_with(repository().join("tests/programs/wrong")) {
                continue;
            }
            let text = read(&file);
            let first = text.lines().next().unwrap_or_default();
            let stated = first
                .trim_start_matches("/* ")
                .trim_start_matches("// ")
                .trim_end_matches(" */");
            assert_eq!(
                stated,
                format!("SPDX-License-Identifier: {licence}"),
                "{}",
                file.display()
            );
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} files were found");
}

#[test]
fn files_named_in_comments_exist() {
    let files = source_tree();
    let (mut count, mut missing, mut of_others) = (0, Vec::new(), BTreeSet::new());
    for source in &files {
        let text = fs::read(repository().join(source)).expect("the file is readable");
        let text = String::from_utf8_lossy(&text);
        let Some(notation) = Notation::of(source, &text) else {
            continue;
        };
        for named in named_files(&text, notation, &FOLDERS) {
            count += 1;
            if FILES_OF_OTHERS.contains(&named.name.as_str()) {
                of_others.insert(named.name);
            } else if !is_there(&named.name, source, &files) {
                missing.push(format!("{}:{}: {}", source.display(), named.line, named.name));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "comments name files that are not there:\n{}",
        missing.join("\n")
    );
    assert!(count > 300, "only {count} names were found");
    assert_eq!(of_others, FILES_OF_OTHERS.map(str::to_owned).into(), "FILES_OF_OTHERS");
}

/// Whether a file that a source names exists. A path begins at the source's folder or at one above it, up to the root, or at include/. A
/// name alone is that of a file in the same part, which is a crate or else a folder of the root, or in the root itself.
fn is_there(name: &str, source: &Path, files: &BTreeSet<PathBuf>) -> bool {
    if name.contains('/') {
        let mut folders = source.ancestors().skip(1).chain([Path::new("include")]);
        return folders.any(|folder| repository().join(folder).join(name).exists());
    }
    let depth = if source.starts_with("crates") { 2 } else { 1 };
    let part: PathBuf = source.iter().take(depth).collect();
    let mut same_part = files.iter().filter(|file| file.starts_with(&part));
    same_part.any(|file| file.ends_with(name)) || files.contains(Path::new(name))
}

/// Every file of the repository, relative to it, without what builds make.
fn source_tree() -> BTreeSet<PathBuf> {
    let root = repository();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    let mut found = entries(&root);
    found.retain(|path| path.is_file());
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_file() {
                found.push(path);
            } else if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            }
        }
    }
    let relative = |path: PathBuf| path.strip_prefix(&root).expect("it is in there").to_owned();
    found.into_iter().map(relative).collect()
}

fn crates() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(repository().join("crates"))
        .expect("crates/ exists")
        .map(|entry| entry.expect("crates/ is readable").path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() >= 6, "{folders:?}");
    folders
}

/// The crates of ours in a manifest, by the names of their folders.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        if section.ends_with("dependencies") {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            found.extend(name.strip_prefix("piste-").map(str::to_owned));
            if name == "pisted" || name == "piste" {
                found.insert(if name == "piste" { "cli" } else { "daemon" }.to_owned());
            }
        }
    }
    found
}

/// What a C file includes of include/piste, relative to it.
fn own_includes(file: &Path) -> Vec<String> {
    let root = repository().join("include/piste");
    let folder = file.parent().expect("a file has a folder");
    let text = read(file);
    let included = text.lines().filter_map(|line| line.trim().strip_prefix("#include "));
    included
        .filter_map(|name| {
            let name = name.trim_matches(['<', '>', '"', ' ']);
            let beside = folder.join(name);
            match name.strip_prefix("piste/") {
                Some(own) => Some(own.to_owned()),
                None if beside.is_file() => beside.strip_prefix(&root).ok().map(|own| own.display().to_string()),
                None => None,
            }
        })
        .collect()
}

fn lines_with_unsafe(folder: &Path) -> Vec<String> {
    let mut found = vec![];
    for file in files(folder, &["rs"], true) {
        for line in read(&file).lines() {
            let code = line.split("//").next().unwrap_or_default();
            let is_unsafe = [
                "unsafe {",
                "unsafe fn",
                "unsafe impl",
                "unsafe extern",
                "allow(unsafe_code",
            ];
            if is_unsafe.iter().any(|text| code.contains(text)) {
                found.push(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    found
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, behind)) = rest.split_once("/*") {
        kept += before;
        rest = behind.split_once("*/").map_or("", |(_, behind)| behind);
    }
    kept + rest
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

fn files(folder: &Path, endings: &[&str], deep: bool) -> Vec<PathBuf> {
    let mut found = vec![];
    for path in entries(folder) {
        if path.is_dir() && deep {
            found.extend(files(&path, endings, deep));
        } else if path
            .extension()
            .is_some_and(|ending| endings.iter().any(|known| ending == *known))
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    paths.collect()
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .expect("a path with a name")
        .to_string_lossy()
        .into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
