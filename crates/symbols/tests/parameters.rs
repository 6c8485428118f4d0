// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters by name, as what a probe fetches: of code that was optimized and of code that was not.

#![cfg(target_arch = "x86_64")]

use std::path::{Path, PathBuf};
use std::process::Command;

use piste_symbols::binary::open;
use piste_symbols::parameters;

const C: &str = "\
enum kind { FRESH, USED };
struct customer { char title[8]; const char *name; };
struct order {
	int id;
	unsigned char parts;
	double price;
	enum kind kind;
	struct customer *customer;
	struct { long weight; };
	struct customer payer;
	unsigned flag : 1;
};
typedef struct order order_t;
struct pair { long one, other; };

__attribute__((noinline, noipa)) long sell(const order_t *order, double rate, short count, const char *note, void *more)
{
	return order->id + (long)rate + count + note[0] + (more != 0);
}

__attribute__((noinline, noipa)) struct pair both(struct pair pair, int count)
{
	pair.one += count;
	return pair;
}

int main(int count, char **arguments)
{
	order_t order = {.id = count};
	struct pair pair = {count, count};
	return (int)(sell(&order, 1.5, 3, arguments[0], &order) + both(pair, 3).one);
}
";

const CPP: &str = "\
namespace shop {
struct base { long number; };
struct till : base {
	int open;
	__attribute__((noinline)) long sell(int count, int &sum);
};
long till::sell(int count, int &sum)
{
	asm volatile(\"\");
	return number + open + count + sum;
}
}

int main(int count, char **)
{
	shop::till till{};
	return (int)till.sell(count, count);
}
";

fn compile(folder: &Path, source: &str, name: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (folder.join(name), folder.join("program"));
    std::fs::write(&file, source).unwrap();
    let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
    run(Command::new(compiler).args(options).arg("-o").arg(&program).arg(&file));
    program
}

fn run(command: &mut Command) {
    let status = command.status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
}

fn fetch(program: &Path, function: &str, expression: &str) -> Result<String, String> {
    parameters::fetch(open(program).unwrap(), program, function, expression)
}

#[test]
fn parameters_and_members_are_fetched_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O2"],
        &["-gdwarf-4", "-O2"],
        &["-g", "-O1", "-gz=zlib"],
    ] {
        let program = compile(folder.path(), C, "shop.c", options);
        for (expression, expected) in [
            ("order", "%di:x64"),
            ("count", "%si:s16"),
            ("note", "+0(%dx):string"),
            ("more", "%cx:x64"),
            ("order->id", "+0(%di):s32"),
            ("order->parts", "+4(%di):u8"),
            ("order->kind", "+16(%di):u32"),
            ("order->customer", "+24(%di):x64"),
            ("order->customer->name", "+0(+8(+24(%di))):string"),
            ("order->customer->title", "+0(+24(%di)):string"),
            ("order->weight", "+32(%di):s64"),
            ("order->payer.name", "+0(+48(%di)):string"),
        ] {
            assert_eq!(
                fetch(&program, "sell", expression).as_deref(),
                Ok(expected),
                "{expression} {options:?}"
            );
        }
    }
}

#[test]
fn members_of_classes_are_fetched_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for options in [&["-g", "-O0"], &["-g", "-O2"]] {
        let program = compile(folder.path(), CPP, "shop.cc", options);
        for function in ["_ZN4shop4till4sellEiRi", "shop::till::sell"] {
            for (expression, expected) in [
                ("this->open", "+8(%di):s32"),
                ("this->number", "+0(%di):s64"),
                ("count", "%si:s32"),
            ] {
                assert_eq!(
                    fetch(&program, function, expression).as_deref(),
                    Ok(expected),
                    "{expression} {options:?}"
                );
            }
        }
    }
}

/// A program of two files, each with a `static` function `sell`.
fn two_of_a_name(folder: &Path, parameters: [&str; 2], options: [&[&str]; 2]) -> PathBuf {
    let objects = [0, 1].map(|number| {
        let (file, object) = (folder.join(format!("{number}.c")), folder.join(format!("{number}.o")));
        let source = format!(
            "struct order {{ char note[4]; int id; }};
             struct refund {{ long reason; int id; }};
             __attribute__((noinline, noipa)) static int sell({}) {{ return order->id + count; }}
             int sell_{number}(void *order, int count) {{ return sell(order, count); }}",
            parameters[number]
        );
        std::fs::write(&file, source).unwrap();
        run(Command::new("cc")
            .args(["-O1", "-c"])
            .args(options[number])
            .arg("-o")
            .arg(&object)
            .arg(&file));
        object
    });
    let (main, program) = (folder.join("main.c"), folder.join("program"));
    let source = "int sell_0(void *, int); int sell_1(void *, int);
                  int main(int count, char **order) { return sell_0(order, count) + sell_1(order, count); }";
    std::fs::write(&main, source).unwrap();
    run(Command::new("cc").arg("-o").arg(&program).arg(&main).args(objects));
    program
}

#[test]
fn functions_of_one_name_must_agree() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = ["struct order *order, int count", "struct refund *order, int count"];
    let program = two_of_a_name(folder.path(), parameters, [&["-g"], &["-g"]]);
    assert_eq!(fetch(&program, "sell", "count").as_deref(), Ok("%si:s32"));
    let why = fetch(&program, "sell", "order->id").expect_err("they differ");
    for said in [
        "2 functions named sell",
        "+4(%di):s32",
        "+8(%di):s32",
        "offset in the file",
    ] {
        assert!(why.contains(said), "{why}");
    }
    let why = fetch(&program, "sell", "order->reason").expect_err("one has none");
    assert!(why.contains("+0(%di):s64"), "{why}");
    let why = fetch(&program, "sell", "price").expect_err("none has any");
    assert!(why.contains("no parameter price"), "{why}");

    // What is recorded at both is known of one only.
    let program = two_of_a_name(folder.path(), parameters, [&["-g"], &[]]);
    let why = fetch(&program, "sell", "count").expect_err("one is unknown");
    assert!(why.contains("debug information of only 1;"), "{why}");
}

/// The compiler moves what is rarely executed to another place.
#[test]
fn parameters_of_a_function_in_several_parts_are_fetched() {
    const SOURCE: &str = "\
extern void exit(int) __attribute__((noreturn, cold));
__attribute__((noinline, noipa)) int sell(int *sum, int count)
{
	if (__builtin_expect(*sum < 0, 0))
		exit(*sum + count);
	return *sum + count;
}
int main(int count, char **arguments) { return sell(&count, 3); }
";
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), SOURCE, "parts.c", &["-g", "-O2"]);
    assert_eq!(fetch(&program, "sell", "count").as_deref(), Ok("%si:s32"));
}

/// A structure that consists of itself, twice, which no compiler makes.
const CYCLIC: &str = r#"
	.text
	.globl main, sell
	.type sell, @function
sell:	ret
	.size sell, . - sell
main:	ret
	.section .debug_abbrev,"",@progbits
	.uleb128 1, 0x11
	.byte 1, 0, 0
	.uleb128 2, 0x2e
	.byte 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
	.uleb128 3, 0x05
	.byte 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0
	.uleb128 4, 0x0f
	.byte 0, 0x49, 0x13, 0, 0
	.uleb128 5, 0x13
	.byte 1, 0, 0
	.uleb128 6, 0x0d
	.byte 0, 0x49, 0x13, 0x38, 0x0f, 0, 0
	.uleb128 7, 0x0d
	.byte 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0f, 0, 0
	.byte 0
	.section .debug_info,"",@progbits
unit:	.long end - begin
begin:	.value 4
	.long .debug_abbrev
	.byte 8
	.uleb128 1
	.uleb128 2
	.string "sell"
	.quad sell, 1
	.uleb128 3
	.string "order"
	.long pointer - unit
	.byte 1, 0x55
	.byte 0
pointer: .uleb128 4
	.long structure - unit
structure: .uleb128 5
	.uleb128 6
	.long structure - unit
	.uleb128 0
	.uleb128 6
	.long structure - unit
	.uleb128 0xffffffffffffffff
	.uleb128 7
	.string "far"
	.long structure - unit
	.uleb128 0xffffffffffffffff
	.byte 0, 0
end:
	.section .note.GNU-stack,"",@progbits
"#;

#[test]
fn types_that_consist_of_themselves_end() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), CYCLIC, "cyclic.s", &[]);
    assert_eq!(fetch(&program, "sell", "order").as_deref(), Ok("%di:x64"));
    let why = fetch(&program, "sell", "order->id").expect_err("there is none");
    assert!(why.contains("order has no member id"), "{why}");
    let why = fetch(&program, "sell", "order->far.far").expect_err("that is nowhere");
    assert!(why.contains("damaged"), "{why}");
}

#[test]
fn what_cannot_be_fetched_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), C, "shop.c", &["-g", "-O0"]);
    for (function, expression, expected) in [
        (
            "sell",
            "price",
            "sell has no parameter price; it has order, rate, count, note, more",
        ),
        (
            "sell",
            "order->prise",
            "order has no member prise that a probe can fetch; its members: id, parts",
        ),
        ("sell", "order->flag", "order has no member flag that a probe can fetch"),
        (
            "sell",
            "rate",
            "sell does not have its parameter rate in a general register",
        ),
        (
            "sell",
            "order->price",
            "order->price is a floating-point number, which a probe cannot fetch",
        ),
        ("sell", "order->payer", "name one of its members: title, name"),
        ("sell", "more->id", "NAME=+OFFSET(%cx):TYPE"),
        ("sell", "count->id", "count is a number and has no members"),
        ("sell", "order[1]", "write it as NAME"),
        ("sell", "order->", "write it as NAME"),
        ("sold", "order", "has no function sold; list"),
        (
            "both",
            "count",
            "both does not have its parameter count in a general register",
        ),
    ] {
        let why = fetch(&program, function, expression).expect_err(expression);
        assert!(why.contains(expected), "{expression}: {why}");
    }
    let plain = compile(folder.path(), C, "shop.c", &["-O2"]);
    let why = fetch(&plain, "sell", "order").expect_err("no -g");
    assert!(why.contains("compile it with -g"), "{why}");
    std::fs::write(&plain, "no program").unwrap();
    let why = fetch(&plain, "sell", "order").expect_err("it is text");
    assert!(why.contains("is not an ELF program or library"), "{why}");
}
