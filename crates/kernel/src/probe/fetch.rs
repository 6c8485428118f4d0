// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments in the words of tracefs, `[NAME=]FETCH[:TYPE]`, checked before the kernel sees them.
//!
//! ```text
//!   FETCH: %REGISTER | +OFFSET(FETCH) | -OFFSET(FETCH) | $retval | $stack | $stackN | $comm | @ADDRESS | @+FILE_OFFSET | \NUMBER | \"text"
//!          kernel probes also $argN, @SYMBOL and +uOFFSET(FETCH)
//!   TYPE:  u8 u16 u32 u64, s8.., x8.., char, string, ustring, symbol, symstr, bBITS@FIRST/WIDTH, each with [COUNT]
//! ```
//!
//! The kernel has the last word; what is found here has a better answer than its "invalid argument".

use super::error::ProbeError;

/// Longest name, in bytes, and longest FETCH:TYPE: the kernel's limits.
const NAME_BYTES_MAX: usize = 31;
const FETCH_BYTES_MAX: usize = 63;
/// Most arguments of a probe, as the kernel has it.
const ARGUMENTS_MAX: usize = 128;
/// Names that each record has already, in the kernel's words and in the trace's.
const TAKEN: [&str; 7] = [
    "ip",
    "func",
    "ret_ip",
    "__probe_ip",
    "__probe_func",
    "__probe_ret_ip",
    "common_pid",
];

/// What is probed, since some words are only for the one or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probed {
    pub(super) is_kernel: bool,
    pub(super) is_return: bool,
}

/// The arguments, each with its name; those without one are `arg1`, `arg2`, by their place.
pub(super) fn checked(arguments: &[String], probed: Probed) -> Result<Vec<String>, ProbeError> {
    let mut names: Vec<String> = Vec::with_capacity(arguments.len());
    let mut checked = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        let refused = |reason: String| ProbeError::Argument {
            argument: argument.clone(),
            reason,
        };
        if index == ARGUMENTS_MAX {
            return Err(refused(format!("a probe can have at most {ARGUMENTS_MAX} arguments")));
        }
        let (name, fetch) = match argument.split_once('=') {
            Some((name, fetch)) => (name.to_owned(), fetch),
            None => (format!("arg{}", index + 1), argument.as_str()),
        };
        check_name(&name).map_err(refused)?;
        if names.contains(&name) {
            return Err(refused(format!("two arguments have the name {name}")));
        }
        check_fetch_and_type(fetch, probed).map_err(refused)?;
        checked.push(format!("{name}={fetch}"));
        names.push(name);
    }
    Ok(checked)
}

/// Whether an argument, `NAME=FETCH:TYPE`, tells more than what registers have: it reads the memory of a program, or of the kernel where
/// its type says so.
pub(super) fn reads_memory(argument: &str) -> bool {
    let (_, text) = argument.split_once('=').unwrap_or(("", argument));
    let (fetch, kind) = split_type(text);
    let is_value = fetch.starts_with(['%', '\\']) || matches!(fetch, "$retval" | "$stack" | "$comm");
    let is_plain = match kind.unwrap_or("u64") {
        "string" => fetch == "$comm" || fetch.starts_with("\\\""),
        "char" => true,
        kind => is_bit_field(kind) || is_integer(kind),
    };
    !(is_value && is_plain)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_word = name
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if name.is_empty() || !is_word {
        return Err("expected a name before the =: letters, digits and _, not starting with a digit".into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "the name has {} letters; at most {NAME_BYTES_MAX} are allowed",
            name.len()
        ));
    }
    if TAKEN.contains(&name) || name.starts_with("common_") {
        return Err(format!("every record already has {name}; choose another name"));
    }
    Ok(())
}

fn check_fetch_and_type(text: &str, probed: Probed) -> Result<(), String> {
    if text.len() > FETCH_BYTES_MAX {
        return Err(format!(
            "it has {} letters after the name; at most {FETCH_BYTES_MAX} are allowed",
            text.len()
        ));
    }
    if text.contains(char::is_control) || (text.contains([' ', '#']) || !text.is_ascii()) {
        return Err("the kernel does not allow spaces, # or non-ASCII letters in an argument".into());
    }
    let (fetch, kind) = split_type(text);
    check_fetch(fetch, probed)?;
    kind.map_or(Ok(()), |kind| check_type(kind, fetch))
}

/// `FETCH:TYPE`. A constant text may have colons.
fn split_type(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((fetch, kind)) if !kind.ends_with('"') => (fetch, Some(kind)),
        _ => (text, None),
    }
}

fn check_fetch(fetch: &str, probed: Probed) -> Result<(), String> {
    let (first, rest) = fetch.split_at_checked(1).ok_or("the value to record is missing")?;
    match first {
        "%" => check_register(rest),
        "$" => check_variable(rest, probed),
        "@" if is_number(rest) || (!probed.is_kernel && rest.strip_prefix('+').is_some_and(is_number)) => Ok(()),
        "@" if probed.is_kernel && !rest.is_empty() => Ok(()),
        "@" => Err("expected an address after @, or + and an offset in the file".into()),
        "\\" if rest.len() > 2 && rest.starts_with('"') && rest.ends_with('"') => Ok(()),
        "\\" if is_number(rest.strip_prefix('-').unwrap_or(rest)) => Ok(()),
        "\\" => Err("expected a number after \\, or text in quotes".into()),
        "+" | "-" => {
            let (offset, inner) = rest
                .split_once('(')
                .ok_or("expected (FETCH) after the offset: +8(%di)")?;
            let inner = inner.strip_suffix(')').ok_or("a ) is missing")?;
            if !is_number(offset.strip_prefix('u').unwrap_or(offset)) {
                return Err(format!(
                    "\"{offset}\" is not an offset in bytes; write for example 8 or 0x10"
                ));
            }
            check_fetch(inner, probed)
        }
        _ => Err(format!(
            "\"{fetch}\" does not begin with % $ @ \\ + or -; write for example %di, $retval, +8(%si) or \\5 \
             (only `--uprobe BINARY:FUNCTION` takes names of parameters)"
        )),
    }
}

fn check_variable(name: &str, probed: Probed) -> Result<(), String> {
    let numbered = |prefix| {
        name.strip_prefix(prefix)
            .is_some_and(|number: &str| number.chars().all(|digit| digit.is_ascii_digit()))
    };
    match name {
        "retval" if probed.is_return => Ok(()),
        "retval" => Err("$retval is available only at returns".into()),
        "stack" | "comm" => Ok(()),
        _ if numbered("stack") => Ok(()),
        _ if numbered("arg") && probed.is_kernel => Ok(()),
        _ if numbered("arg") => {
            Err("$argN is for kernel functions; in a program arguments are in registers (%di, %si, %dx ..)".into())
        }
        _ => Err(format!("there is no ${name}; use $retval, $stack, $stackN or $comm")),
    }
}

fn check_register(name: &str) -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return if name.is_empty() {
            Err("expected a register after %".into())
        } else {
            Ok(())
        };
    }
    const NAMES: [&str; 21] = [
        "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ip",
        "cs", "ss", "flags", "orig_ax",
    ];
    if NAMES.contains(&name) {
        return Ok(());
    }
    match name.strip_prefix(['r', 'e']).filter(|short| NAMES.contains(short)) {
        Some(short) => Err(format!("the kernel calls this register %{short}")),
        None => Err(format!(
            "the kernel has no register %{name}; use one of %{}",
            NAMES.join(" %")
        )),
    }
}

fn check_type(kind: &str, fetch: &str) -> Result<(), String> {
    let (base, count) = match kind.split_once('[') {
        Some((base, count)) => (base, Some(count.strip_suffix(']').ok_or("a ] is missing")?)),
        None => (kind, None),
    };
    let is_memory = fetch.starts_with(['+', '-', '@']);
    if let Some(count) = count {
        if !count.parse().is_ok_and(|count: u32| (1..=64).contains(&count)) {
            return Err(format!("\"{count}\" is not a number of elements; 1 to 64 are allowed"));
        }
        if !is_memory {
            return Err("an array must be read from memory: +0(%di):u32[4]".into());
        }
    }
    match base {
        "char" | "symbol" => Ok(()),
        "string" | "ustring" if !is_memory && fetch != "$comm" && !fetch.starts_with("\\\"") => Err(format!(
            "{fetch} is a value; for the text that it points to, write +0({fetch}):{base}"
        )),
        "string" | "ustring" | "symstr" | "%pd" | "%pD" => Ok(()),
        _ if is_bit_field(base) || is_integer(base) => Ok(()),
        _ => Err(format!(
            "there is no type {base}; use u8 u16 u32 u64, s8 .. s64, x8 .. x64, char, string, ustring or bBITS@FIRST/WIDTH"
        )),
    }
}

fn is_integer(kind: &str) -> bool {
    kind.strip_prefix(['u', 's', 'x'])
        .is_some_and(|bits| matches!(bits, "8" | "16" | "32" | "64"))
}

fn is_bit_field(kind: &str) -> bool {
    let parts = || -> Option<(u32, u32, u32)> {
        let (bits, rest) = kind.strip_prefix('b')?.split_once('@')?;
        let (first, width) = rest.split_once('/')?;
        Some((bits.parse().ok()?, first.parse().ok()?, width.parse().ok()?))
    };
    parts().is_some_and(|(bits, first, width)| {
        matches!(width, 8 | 16 | 32 | 64) && bits > 0 && bits.checked_add(first).is_some_and(|end| end <= width)
    })
}

fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).is_ok() && !digits.starts_with('+'),
        None => !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], is_return: bool) -> Result<Vec<String>, String> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
        let is_kernel = false;
        checked(&arguments, Probed { is_kernel, is_return }).map_err(|error| error.to_string())
    }

    #[test]
    fn the_words_of_tracefs_pass() {
        for argument in [
            "%di",
            "%di:s32",
            "path=+0(%di):string",
            "x=-0x10(+8(%bp)):x64",
            "$stack3",
            "$comm:string",
            "@0x401000:u8",
            "@+0x2000:u32",
            "\\-5:s64",
            "list=+0(%si):u32[4]",
            "top=%ax:b8@8/16",
        ] {
            assert!(check(&[argument], false).is_ok(), "{:?}", check(&[argument], false));
        }
        assert!(check(&["$retval:s32"], true).is_ok());
    }

    #[test]
    fn what_comes_from_memory_is_known() {
        for (argument, expected) in [
            ("a=%di", false),
            ("a=%di:s32", false),
            ("a=%ax:b8@8/16", false),
            ("a=%al:char", false),
            ("a=$retval:x64", false),
            ("a=$stack", false),
            ("a=$comm:string", false),
            ("a=\\-5:s64", false),
            ("a=\\\"text:s32\"", false),
            ("a=\\\"text\":string", false),
            ("a=+0(%di):string", true),
            ("a=+0(%di):ustring", true),
            ("a=-8(%bp):u32", true),
            ("a=+u8(%di):u32", true),
            ("a=$stack0", true),
            ("a=$stack12:u8", true),
            ("a=@0x401000:u8", true),
            ("a=@+0x2000:u32", true),
            ("a=@jiffies", true),
            ("a=$arg1", true),
            // The kernel looks up what lies at that address of its own.
            ("a=%di:symstr", true),
            ("a=%di:symbol", true),
            ("a=%di:%pd", true),
            ("a=%di:%pD", true),
            ("a=%di:string", true),
        ] {
            assert_eq!(reads_memory(argument), expected, "{argument}");
        }
    }

    #[test]
    fn arguments_without_a_name_get_their_number() {
        assert_eq!(
            check(&["%di", "size=%si", "%dx"], false).unwrap(),
            ["arg1=%di", "size=%si", "arg3=%dx"]
        );
    }

    #[test]
    fn faults_are_named() {
        for (arguments, reason) in [
            (&["%rdi"][..], "the kernel calls this register %di"),
            (&["$retval"], "$retval is available only at returns"),
            (&["$arg1"], "arguments are in registers"),
            (&["a=%di", "a=%si"], "two arguments have the name a"),
            (&["arg2=%di", "%si"], "two arguments have the name arg2"),
            (&["1x=%di"], "expected a name before the ="),
            (&["ip=%di"], "every record already has"),
            (&["%di:u33"], "there is no type u33"),
            (&["%di:string"], "for the text that it points to, write +0(%di):string"),
            (&["+8(%di"], "a ) is missing"),
            (&["+(%di)"], "is not an offset in bytes"),
            (&["%di:u32[4]"], "must be read from memory"),
            (&["%ax:b8@12/16"], "there is no type"),
            (&["x=%di %si"], "does not allow spaces"),
            (&[""], "is missing"),
            (&["foo"], "does not begin with"),
        ] {
            let error = check(arguments, false).unwrap_err();
            assert!(error.contains(reason), "{arguments:?}: {error}");
        }
    }
}
