// SPDX-License-Identifier: MIT OR Apache-2.0
//! What filters say, and what is wrong with texts that are none.

use piste_filter::{Expression, Field, Filter, Operand, Step, Term, Test};

fn check(text: &str, expected: &str) {
    let shown = match Filter::parse(text) {
        Ok(filter) => show(filter.expression()),
        Err(error) => format!("{}: {}", error.position, error.reason),
    };
    assert_eq!(shown, expected, "{text}");
}

fn show(expression: &Expression) -> String {
    let list = |parts: &[Expression], sign| format!("({})", parts.iter().map(show).collect::<Vec<_>>().join(sign));
    match expression {
        Expression::And(parts) => list(parts, " and "),
        Expression::Or(parts) => list(parts, " or "),
        Expression::Not(inner) => format!("not {}", show(inner)),
        Expression::Test(Test::Compare {
            left,
            comparison,
            right,
            ..
        }) => format!("{} {comparison:?} {}", operand(left), operand(right)),
        Expression::Test(Test::Like {
            operand: left,
            is_negated,
            pattern,
            ..
        }) => {
            let not = if *is_negated { "not " } else { "" };
            format!("{} {not}like {}", operand(left), pattern.text())
        }
        Expression::Test(Test::Exists { field: found, .. }) => format!("exists {}", field(found)),
    }
}

fn operand(operand: &Operand) -> String {
    match &operand.term {
        Term::Integer(number) => number.to_string(),
        Term::Float(number) => format!("{number:?}"),
        Term::Text(text) => format!("{text:?}"),
        Term::Field(found) => field(found),
        Term::Bits {
            left, operator, right, ..
        } => format!("[{} {} {}]", self::operand(left), operator.sign(), self::operand(right)),
        other => format!("${other:?}"),
    }
}

fn field(field: &Field) -> String {
    let steps = field.path.iter().map(|step| match step {
        Step::Name(name) => format!(".{name}"),
        Step::Index(index) => format!("[{index}]"),
    });
    format!("{}{}", field.scopes.len(), steps.collect::<String>())
}

#[test]
fn operators_bind_as_people_expect() {
    check(
        "a == 1 || b == 2 && !c == 3",
        "(6.a Equal 1 or (6.b Equal 2 and not 6.c Equal 3))",
    );
    check(
        "(a<1||b>=2)&&c!=d",
        "((6.a Less 1 or 6.b GreaterOrEqual 2) and 6.c NotEqual 6.d)",
    );
    check(
        "!(a <= 1) && flags & 0x80",
        "(not 6.a LessOrEqual 1 and 6.flags Bits 128)",
    );
    check(
        "a == 1 && b == 2 && c == 3",
        "(6.a Equal 1 and 6.b Equal 2 and 6.c Equal 3)",
    );
    check(
        "!flags & 4 || !!(a == 1)",
        "(not 6.flags Bits 4 or not not 6.a Equal 1)",
    );
    check("(a) == (1)", "6.a Equal 1");
}

#[test]
fn bits_are_values_in_parentheses_and_conditions_without() {
    check("(flags & 6) == 2", "[6.flags & 6] Equal 2");
    check("2 != (flags & 6 & mask)", "2 NotEqual [[6.flags & 6] & 6.mask]");
    check("(flags & 6)", "6.flags Bits 6");
    check("flags & 6 & mask", "[6.flags & 6] Bits 6.mask");
    check("flags & 6 == 2", "10: write `(a & b) == c`, with parentheses");
    check("a == flags & 6", "11: expected `&&`, `||` or the end");
    check(
        "a & (b == 1)",
        "2: the right side of this operator is a condition, not a value",
    );
    check("(a == 1) == 1", "9: expected `&&`, `||` or the end");
    check(
        "a == (b == 1)",
        "2: the right side of this operator is a condition, not a value",
    );
}

#[test]
fn operators_for_bits_bind_as_in_c() {
    check(
        "(a | b ^ c & d << 2 >> 1) == 0",
        "[6.a | [6.b ^ [6.c & [[6.d << 2] >> 1]]]] Equal 0",
    );
    check("(a & b | c & d) != 1", "[[6.a & 6.b] | [6.c & 6.d]] NotEqual 1");
    check("a << 2 == b >> 1", "[6.a << 2] Equal [6.b >> 1]");
    check("(~a & 6) == ~-7", "[[6.a ^ -1] & 6] Equal [-7 ^ -1]");
    check("~~a < 3", "[[6.a ^ -1] ^ -1] Less 3");
    check("a | b", "[6.a | 6.b] NotEqual 0");
    check(
        "a ^ 6 && !(b << 1)",
        "([6.a ^ 6] NotEqual 0 and not [6.b << 1] NotEqual 0)",
    );
    check("(a) & b == c", "8: write `(a & b) == c`, with parentheses");
    check("a ~ \"x*\" || ~a", "(6.a like x* or [6.a ^ -1] NotEqual 0)");
}

#[test]
fn operands_are_fields_variables_numbers_and_strings() {
    check("a.b[3].c == -7", "6.a.b[3].c Equal -7");
    check("$ctx.vtid > 010", "3.vtid Greater 8");
    check("`odd name` == 1.5e3", "6.odd name Equal 1500.0");
    check("$payload.name != 'it\\'s'", "1.name NotEqual \"it's\"");
    check("s == \"a\\n\\\"é\"", "6.s Equal \"a\\n\\\"é\"");
    check("name == \"a\" && $pid == 0b11", "($Name Equal \"a\" and $Pid Equal 3)");
    check("a < 4K && b > 1.5ms", "(6.a Less 4096 and 6.b Greater 1500000.0)");
    check("a == 10us", "6.a Equal 10000");
    check("exists($ctx.a) || exists == true", "(exists 3.a or 6.exists Equal 1)");
}

#[test]
fn patterns_are_written_with_a_tilde_as_well() {
    check("file =~ \"/etc/*\"", "6.file like /etc/*");
    check("file ~ \"/etc/*\"", "6.file like /etc/*");
    check("file !~ '*'", "6.file not like *");
    check("file =~ 'a\\'b'", "6.file like a\\'b");
}

#[test]
fn faults_name_their_place() {
    for (text, expected) in [
        ("", "0: expected a field, a number or a string"),
        ("a", "1: expected a comparison: ==, !=, <, <=, >, >=, =~, !~ or &"),
        (
            "a && b == 1",
            "2: expected a comparison: ==, !=, <, <=, >, >=, =~, !~ or &",
        ),
        ("!a", "2: expected a comparison: ==, !=, <, <=, >, >=, =~, !~ or &"),
        ("a = 1", "2: `=` is not a comparison; write `==`"),
        ("a | 1 == 1", "6: write `(a | b) == c`, with parentheses"),
        ("a ^ b < 1", "6: write `(a ^ b) == c`, with parentheses"),
        ("a ==", "4: expected a field, a number or a string"),
        ("a << == 1", "5: expected a field, a number or a string"),
        ("a == 1 b", "7: expected `&&`, `||` or the end"),
        ("b == 2 && (a == 1", "10: this parenthesis is not closed"),
        ("(a == 1 b", "8: expected `&&`, `||` or `)`"),
        ("a == 1)", "6: `)` without an open parenthesis"),
        ("a == \"x", "5: the string that begins here has no closing quote"),
        (
            "a == 1x",
            "6: after a number, only K, M or G (powers of 1024) or ns, us, ms or s (nanoseconds) is allowed",
        ),
        (
            "a == 089",
            "5: a number that begins with 0 is octal; the digits 8 and 9 are not allowed",
        ),
        ("a[b] == 1", "2: expected the index of an element, starting at 0"),
        ("a. == 1", "3: expected the name of a field after `.`"),
        (
            "a =~ 3",
            "5: expected a pattern in quotes, in which `*` matches any text",
        ),
        ("a =~ \"x[\"", "7: this `[` has no `]`; write `\\[` for the character"),
        (
            "s == 'a\\q'",
            "7: after a backslash, expected a punctuation mark or one of n, t, r and 0",
        ),
        ("é == #", "6: unexpected '#'"),
        ("a == 0xfg", "5: after 0x, only digits of base 16 are allowed"),
        ("$ctx == 1", "5: expected a `.` and a field after $ctx"),
    ] {
        check(text, expected);
    }
    check(
        "$cp == 1",
        "0: there is no $cp (did you mean $cpu?); use $name, $time, $cpu, $pid, $tid or $comm, or before a field $payload., \
         $ctx., $specific_context., $event_context., $event_header., $packet_context., $packet_header.",
    );
}

#[test]
fn each_part_knows_its_position() {
    let filter = Filter::parse("  ret < 0 && !(file =~ \"/e*\" || exists($ctx.a))").expect("a filter");
    let mut positions = Vec::new();
    filter.expression().tests(&mut |test| {
        positions.push(match test {
            Test::Compare {
                left, position, right, ..
            } => vec![left.position, *position, right.position],
            Test::Like {
                operand,
                position,
                pattern_position,
                ..
            } => vec![operand.position, *position, *pattern_position],
            Test::Exists { position, .. } => vec![*position],
        });
    });
    assert_eq!(positions, [vec![2, 6, 8], vec![15, 20, 23], vec![39]]);
}

#[test]
fn no_depth_and_no_length_ends_the_program() {
    let parse = |text: &str| Filter::parse(text).map(drop);
    assert!(parse(&"(".repeat(60_000)).is_err());
    assert!(parse(&"!".repeat(60_000)).is_err());
    assert!(parse(&format!("{}a == 1", "a == 1 || ".repeat(5_000))).is_err());
    assert!(parse(&format!("{}a", "a & ".repeat(5_000))).is_err());
    assert!(parse(&format!("s == \"{}\"", "é".repeat(40_000))).is_err());
    let nested = |depth: usize| format!("{}a == 1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(parse(&nested(100)), Ok(()));
    assert_eq!(parse(&nested(101)).expect_err("too deep").position, 101);
    let long = vec!["a & 1"; 1000].join(" && ");
    assert_eq!(parse(&long), Ok(()));
    assert!(parse("a == 99999999999999999999999999999999999999999").is_err());
}
