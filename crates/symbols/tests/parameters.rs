// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters by name, as what a probe fetches: of code that was optimized and of code that was not.

#![cfg(target_arch = "x86_64")]

use std::path::{Path, PathBuf};
use std::process::Command;

use piste_symbols::parameters::fetch;

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
    let mut command = Command::new(compiler);
    let status = command.args(options).arg("-o").arg(&program).arg(&file).status();
    assert!(status.is_ok_and(|status| status.success()), "{options:?}");
    program
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
        ("sell", "order->prise", "order has no member prise"),
        ("sell", "order->flag", "order has no member flag that can be fetched"),
        ("sell", "rate", "it is not known where sell has its parameter rate"),
        (
            "sell",
            "order->price",
            "order->price is of a type that a probe cannot fetch",
        ),
        ("sell", "order->payer", "choose one of its members: title, name"),
        ("sell", "more->id", "more is no structure in memory"),
        ("sell", "count->id", "count is no structure in memory"),
        ("sell", "order[1]", "is not of the form NAME"),
        ("sell", "order->", "is not of the form NAME"),
        ("sold", "order", "has no code of a function sold"),
        ("both", "count", "it is not known where both has its parameter count"),
    ] {
        let why = fetch(&program, function, expression).expect_err(expression);
        assert!(why.contains(expected), "{expression}: {why}");
    }
    let plain = compile(folder.path(), C, "shop.c", &["-O2"]);
    let why = fetch(&plain, "sell", "order").expect_err("no -g");
    assert!(why.contains("compile it with -g"), "{why}");
    std::fs::write(&plain, "no program").unwrap();
    assert!(fetch(&plain, "sell", "order").is_err());
}
