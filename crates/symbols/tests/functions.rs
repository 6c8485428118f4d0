// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions by their symbols, and the function that a call calls: of a program with a call of its own function, of a library's, and through a
//! pointer. Calls are understood on x86-64 only.

#![cfg(target_arch = "x86_64")]

use std::path::Path;
use std::process::Command;

use piste_symbols::functions::Code;

const SOURCE: &str = "\
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline, noclone)) int serve(int number)
{
	asm volatile(\"\");
	return number + 1;
}

int (*volatile through)(int) = serve;

int main(int count, char **arguments)
{
	int sum;

	(void)arguments;
	asm volatile(\"call serve\\n after_own:\" : \"=a\"(sum) : \"D\"(count) : \"memory\", \"cc\");
	asm volatile(\"call *%1\\n after_pointer:\" : \"+a\"(sum) : \"r\"(through), \"D\"(count) : \"memory\", \"cc\");
	asm volatile(\"call getpid@PLT\\n after_library:\" : \"=a\"(sum) : : \"memory\", \"cc\", \"rcx\", \"r11\");
	return sum < 0 || getpid() < 0;
}
";

/// How far behind the first byte that is loaded a symbol is: what is linked in the usual way begins at 0.
fn offset(program: &Path, symbol: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().expect("binutils are there");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.ends_with(&format!(" {symbol}")));
    let line = line.unwrap_or_else(|| panic!("{symbol}: {text}"));
    u64::from_str_radix(&line[..16], 16).expect("an address")
}

#[test]
fn the_function_that_a_call_calls_is_known_where_the_call_says_it() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("shop.c"), folder.path().join("shop"));
    std::fs::write(&source, SOURCE).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-pie", "-o"])
        .args([&program, &source])
        .status();
    assert!(status.unwrap().success());
    let code = Code::open(&program, None).expect("it is a program");
    let called = |symbol: &str| code.called(offset(&program, symbol));
    assert_eq!(called("after_own").as_deref(), Some("serve"));
    assert_eq!(called("after_pointer"), None);
    assert_eq!(called("after_library"), None);
    assert_eq!(called("main"), None, "there is no call before it");
    assert_eq!(code.name(offset(&program, "after_own")).as_deref(), Some("main"));
    assert_eq!(code.name(offset(&program, "serve")).as_deref(), Some("serve"));
}
