// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of variables in every kind of file that a linker makes, where the file says that they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSegment, ObjectSymbol};
use piste_symbols::data::{Data, Extent, Mapped};

const SOURCE: &str = "\
static long orders[4] = {1};
long shared[2];
static int till_lock;
int main(void)
{
	till_lock++;
	return orders[shared[till_lock]] == 0;
}
";

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let (source, program) = (folder.join("shop.c"), folder.join(name));
    fs::write(&source, SOURCE).unwrap();
    run("cc", &[&["-O0", "-o", text(&program), text(&source)], options].concat());
    program
}

/// Where the kernel would put the file's code if its first byte came to `base`, the first address that the file has, and that of a symbol.
fn placed(program: &Path, base: u64, symbol: &str) -> (Mapped, u64, u64) {
    const PAGE: u64 = 4096;
    const EXECUTABLE: u32 = 1;
    let bytes = fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let first = file.segments().map(|segment| segment.address()).min().unwrap() / PAGE * PAGE;
    let is_code = |segment: &object::Segment<'_, '_>| matches!(segment.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & EXECUTABLE != 0);
    let code = file.segments().find(is_code).unwrap();
    let mapped = Mapped {
        address: base + code.address() / PAGE * PAGE - first,
        file_offset: code.file_range().0 / PAGE * PAGE,
    };
    let found = file.symbols().find(|known| known.name() == Ok(symbol));
    (mapped, first, found.expect(symbol).address())
}

#[test]
fn variables_have_their_names_wherever_the_file_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("pie", &["-pie"][..]),
        ("fixed", &["-no-pie"]),
        ("far", &["-no-pie", "-Wl,-Ttext-segment=0x50000000"]),
        ("static", &["-static"]),
        ("static-pie", &["-static-pie"]),
        ("together", &["-pie", "-Wl,-z,noseparate-code"]),
        ("library.so", &["-shared", "-fPIC"]),
    ] {
        let program = compile(folder.path(), name, options);
        let data = Data::open(&program, None).unwrap();
        const BASE: u64 = 0x7f12_3456_7000;
        for (symbol, bytes) in [("orders", 32), ("shared", 16), ("till_lock", 4)] {
            let (mapped, first, address) = placed(&program, BASE, symbol);
            let Extent { base, bytes: extent } = data.extent(mapped).unwrap();
            assert_eq!(base, BASE, "{name}");
            let offset = address - first;
            assert!(offset + bytes <= extent, "{name}: {symbol} is a part of what is loaded");
            for behind in [0, bytes - 1] {
                let found = data.variable(offset + behind);
                assert_eq!(found, Some((symbol.to_owned(), behind)), "{name}");
            }
            assert_ne!(
                data.variable(offset + bytes).map(|(found, _)| found),
                Some(symbol.to_owned()),
                "{name}: it is not so long"
            );
        }
    }
}

#[test]
fn a_stripped_file_has_the_names_of_its_debug_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "shop", &["-g", "-Wl,--build-id"]);
    let (_, first, address) = placed(&program, 0, "till_lock");
    let debug = folder.path().join("shop.debug");
    run("objcopy", &["--only-keep-debug", text(&program), text(&debug)]);
    run("strip", &[text(&program)]);
    assert_eq!(Data::open(&program, None).unwrap().variable(address - first), None);
    run("objcopy", &["--add-gnu-debuglink", text(&debug), text(&program)]);
    let data = Data::open(&program, None).unwrap();
    assert_eq!(data.variable(address - first), Some(("till_lock".to_owned(), 0)));
}

#[test]
fn another_file_and_what_is_no_program_are_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "shop", &["-Wl,--build-id"]);
    assert!(Data::open(&program, Some(&[1, 2, 3])).is_none());
    assert!(Data::open(folder.path(), None).is_none());
    fs::write(&program, "no program").unwrap();
    assert!(Data::open(&program, None).is_none());
    // What is mapped of a file is not in any segment of it.
    let other = compile(folder.path(), "other", &[]);
    let mapped = Mapped {
        address: 0x1000,
        file_offset: 1 << 40,
    };
    assert_eq!(Data::open(&other, None).unwrap().extent(mapped), None);
}
