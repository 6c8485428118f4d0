// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of code in every kind of file that a linker makes, against the addresses that binutils know.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSegment, ObjectSymbol};
use piste_symbols::binary::{self, Binary, Cache, Code, File};

const SOURCE: &str = "\
namespace shop {
__attribute__((noinline)) int order(int number)
{
	asm volatile(\"\");
	return number + 1;
}
}

int main(int count, char **)
{
	return shop::order(count) - count - 1;
}
";

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let (source, program) = (folder.join("shop.cc"), folder.join(name));
    std::fs::write(&source, SOURCE).unwrap();
    run(
        "c++",
        &[&["-O0", "-o", text(&program), text(&source)], options].concat(),
    );
    program
}

/// How far behind the first byte that is loaded a function begins, and the build id.
fn place(program: &Path, symbol: &str) -> (u64, Vec<u8>) {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let address = file
        .symbols()
        .find(|known| known.name() == Ok(symbol))
        .unwrap_or_else(|| panic!("{symbol}"))
        .address();
    let first = file.segments().map(|segment| segment.address()).min().unwrap();
    (
        address - first / 4096 * 4096,
        file.build_id().unwrap().unwrap_or_default().to_vec(),
    )
}

fn code(binary: &Binary, offset: u64) -> (String, Option<(String, u32)>) {
    let Code { function, line } = binary.code(offset).expect("it is known");
    let line = line.map(|line| (line.path.rsplit('/').next().unwrap_or_default().to_owned(), line.number));
    (function, line)
}

const ORDER: &str = "_ZN4shop5orderEi";

#[test]
fn code_has_its_name_in_every_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("pie", &["-pie"][..]),
        ("fixed", &["-no-pie"]),
        ("far", &["-no-pie", "-Wl,-Ttext-segment=0x50000000"]),
        ("static", &["-static"]),
        ("library.so", &["-shared", "-fPIC"]),
    ] {
        let program = compile(folder.path(), name, options);
        let (offset, _) = place(&program, ORDER);
        let binary = Binary::open(&program, None).unwrap();
        assert_eq!(code(&binary, offset), ("shop::order(int)".to_owned(), None), "{name}");
        assert_ne!(
            code(&binary, offset + 64).0,
            "shop::order(int)",
            "{name}: it is not so long"
        );
    }
}

#[test]
fn lines_are_told_where_the_file_has_them() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("plain", &["-g"][..]),
        ("packed", &["-g", "-gz=zlib"]),
        ("old", &["-gdwarf-4"]),
    ] {
        let program = compile(folder.path(), name, options);
        let binary = Binary::open(&program, None).unwrap();
        let (offset, _) = place(&program, ORDER);
        let line = Some(("shop.cc".to_owned(), 3));
        assert_eq!(code(&binary, offset), ("shop::order(int)".to_owned(), line), "{name}");
    }
}

#[test]
fn a_stripped_program_has_its_names_in_its_debug_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "shop", &["-g", "-Wl,--build-id"]);
    let (offset, _) = place(&program, ORDER);
    let debug = folder.path().join("shop.debug");
    run("objcopy", &["--only-keep-debug", text(&program), text(&debug)]);
    run("strip", &[text(&program)]);
    assert_eq!(Binary::open(&program, None).unwrap().code(offset), None);
    run("objcopy", &["--add-gnu-debuglink", text(&debug), text(&program)]);
    let binary = Binary::open(&program, None).unwrap();
    let line = Some(("shop.cc".to_owned(), 3));
    assert_eq!(code(&binary, offset), ("shop::order(int)".to_owned(), line));
}

#[test]
fn another_file_of_the_same_name_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "shop", &["-Wl,--build-id"]);
    let (_, build_id) = place(&program, ORDER);
    assert!(Binary::open(&program, Some(&build_id)).is_some());
    compile(folder.path(), "shop", &["-Wl,--build-id", "-O3", "-DOTHER", "-no-pie"]);
    assert!(Binary::open(&program, Some(&build_id)).is_none());
    fs::write(&program, "no program").unwrap();
    assert!(Binary::open(&program, None).is_none());
    assert!(Binary::open(&folder.path().join("gone"), Some(&build_id)).is_none());
    assert!(Binary::open(folder.path(), None).is_none(), "a folder");
}

#[test]
fn a_file_that_asks_for_much_memory_is_refused() {
    // What stands in the file about its sections, not what it has.
    let program = fs::read("/proc/self/exe").unwrap();
    let table = u64::from_le_bytes(program[0x28..0x30].try_into().unwrap()) as usize;
    let of_symbols = |header: &&[u8]| header[4..8] == 2u32.to_le_bytes();
    let number = program[table..]
        .chunks(64)
        .position(|header| of_symbols(&header))
        .unwrap();
    let bytes_at = table + 64 * number + 0x20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge");
    let mut huge = program;
    huge[bytes_at..bytes_at + 8].copy_from_slice(&(24u64 << 28).to_le_bytes());
    fs::write(&path, huge).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let cache = Cache::new(binary::open(&path).unwrap(), 1 << 20);
    assert!(File::parse(&cache).is_err());
    let small = Cache::new(binary::open(Path::new("/proc/self/exe")).unwrap(), 1 << 30);
    assert!(File::parse(&small).is_ok());
}

#[test]
fn only_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    for path in [&pipe, folder.path(), Path::new("/dev/null")] {
        let error = binary::open(path).unwrap_err();
        assert_eq!(error.to_string(), "it is not a file", "{path:?}");
    }
}
