// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places for probes as people write them: `/bin/bash:readline+0x10 prompt=+0(%di):string`, `libc.so.6:libc:setjmp`, `do_exit`,
//! `0xffffffff81234567`.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use piste_control::interface::{KernelEventKind, KernelRule};
use piste_reason::reason;
use piste_symbols::binary::open;
use piste_symbols::kernel::KernelSymbols;
use piste_symbols::parameters::fetch;
use piste_terminal::printable;

use crate::failure::Failure;
use crate::kernel_rules::rule;

/// Where shared libraries usually are, for names without a folder.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/local/lib",
];

/// The rule for a probe: its place, and its event's name where the user chose one.
///
/// # Errors
/// The place does not have the form that the kind needs, or its binary is not found.
pub(crate) fn probe(kind: KernelEventKind, text: &str, name: Option<&str>) -> Result<KernelRule, Failure> {
    match kind {
        KernelEventKind::usdt => usdt(text),
        KernelEventKind::kprobe | KernelEventKind::kretprobe => in_kernel(kind, text, name),
        _ => in_binary(kind, text, name),
    }
}

fn in_binary(kind: KernelEventKind, text: &str, name: Option<&str>) -> Result<KernelRule, Failure> {
    let (place, arguments) = words(text);
    let (binary, place) = place
        .rsplit_once(':')
        .filter(|(binary, place)| !binary.is_empty() && !place.is_empty())
        .ok_or_else(|| malformed(text, "BINARY:SYMBOL or BINARY:SYMBOL+OFFSET"))?;
    let path = find(binary)?;
    let arguments = arguments
        .into_iter()
        .map(|argument| fetched(argument, Path::new(&path), place, &kind))
        .collect::<Result<_, _>>()?;
    let file = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
    let default = format!("{}_{}", identifier(&file), event_name(&kind, place));
    Ok(KernelRule {
        place: Some(place.into()),
        arguments,
        binary: Some(path),
        ..rule(kind, name.unwrap_or(&default))
    })
}

/// An argument in the words of tracefs: `price=order->price` is what the function's debug information says of that.
///
/// # Errors
/// The function has no such parameter, or it is not known where it is.
fn fetched(argument: String, binary: &Path, place: &str, kind: &KernelEventKind) -> Result<String, Failure> {
    let (name, expression) = argument.split_once('=').unwrap_or(("", &argument));
    // In the words of tracefs it would begin with one of %@$+-.
    if !expression.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return Ok(argument);
    }
    // Names come from the file, which may be a stranger's.
    let failed = |why: &str| Failure::new(format!("cannot record {expression:?} at {place}: {}", printable(why)));
    if *kind != KernelEventKind::uprobe || place.contains('+') || place.starts_with("0x") {
        return Err(failed(
            "parameters can be named only at the beginning of a function, with --uprobe BINARY:FUNCTION; \
             name a register instead: NAME=%di:s32",
        ));
    }
    let file = open(binary).map_err(|error| {
        failed(&format!(
            "cannot read {}, whose debug information has the names of parameters: {}; name a register instead: NAME=%di:s32",
            binary.display(),
            reason(&error)
        ))
    })?;
    let fetched = fetch(file, binary, place, expression).map_err(|why| failed(&why))?;
    let last = expression.rsplit(['.', '>']).next().unwrap_or(expression);
    Ok(format!("{}={fetched}", if name.is_empty() { last } else { name }))
}

fn in_kernel(kind: KernelEventKind, text: &str, name: Option<&str>) -> Result<KernelRule, Failure> {
    let (place, arguments) = words(text);
    if place.is_empty() {
        return Err(malformed(text, "SYMBOL or SYMBOL+OFFSET, or 0xADDRESS"));
    }
    let default = match (place.starts_with("0x"), kernel_symbol(place)) {
        (true, Some(symbol)) => event_name(&kind, &symbol),
        (true, None) => event_name(&kind, &format!("kernel_{place}")),
        _ => event_name(&kind, place),
    };
    Ok(KernelRule {
        place: Some(place.into()),
        arguments,
        ..rule(kind, name.unwrap_or(&default))
    })
}

/// `do_exit+0x10` for a place in the kernel that is given by its address, if /proc/kallsyms shows addresses.
pub(crate) fn kernel_symbol(place: &str) -> Option<String> {
    static SYMBOLS: LazyLock<KernelSymbols> = LazyLock::new(|| KernelSymbols::read().unwrap_or_default());
    symbol_of(place, || &SYMBOLS)
}

fn symbol_of<'s>(place: &str, symbols: impl FnOnce() -> &'s KernelSymbols) -> Option<String> {
    let digits = place.strip_prefix("0x")?;
    let (base, plus) = digits.split_once('+').unwrap_or((digits, "0"));
    let plus = match plus.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => plus.parse(),
    };
    let address = u64::from_str_radix(base, 16).ok()?.checked_add(plus.ok()?)?;
    match symbols().symbol(address)? {
        (name, 0) => Some(name.to_owned()),
        (name, offset) => Some(format!("{name}+{offset:#x}")),
    }
}

fn usdt(text: &str) -> Result<KernelRule, Failure> {
    let mut parts = text.rsplitn(3, ':');
    let (name, provider, binary) = (parts.next(), parts.next(), parts.next());
    match (binary, provider, name) {
        (Some(binary), Some(provider), Some(name)) if ![binary, provider, name].iter().any(|part| part.is_empty()) => {
            Ok(KernelRule {
                binary: Some(find(binary)?),
                ..rule(KernelEventKind::usdt, &format!("{provider}:{name}"))
            })
        }
        _ => Err(malformed(text, "BINARY:PROVIDER:NAME")),
    }
}

/// The place, and the arguments behind it.
fn words(text: &str) -> (&str, Vec<String>) {
    let mut words = text.split_whitespace();
    (words.next().unwrap_or_default(), words.map(String::from).collect())
}

/// `readline`, `readline_0x10`, `readline_return`
fn event_name(kind: &KernelEventKind, place: &str) -> String {
    let name = identifier(place);
    match kind {
        KernelEventKind::uretprobe | KernelEventKind::kretprobe => name + "_return",
        _ => name,
    }
}

/// `text` with `_` for what cannot be in a name.
fn identifier(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

fn malformed(text: &str, form: &str) -> Failure {
    Failure::new(format!("cannot probe {text:?}: the place must have the form {form}"))
}

/// The binary's absolute path: a name without a folder is a program in PATH, or a library.
///
/// # Errors
/// There is none of that name.
pub(crate) fn find(binary: &str) -> Result<String, Failure> {
    let path = if binary.contains('/') {
        std::path::absolute(binary)
            .map_err(|error| Failure::new(format!("cannot use the path {binary:?}: {}", reason(&error))))?
    } else {
        let programs = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&programs).chain(LIBRARY_FOLDERS.iter().map(PathBuf::from));
        folders
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(binary))
            .find(|path| path.is_file())
            .ok_or_else(|| {
                Failure::new(format!(
                    "there is no program in PATH and no library named {binary:?}; give its path"
                ))
            })?
    };
    if !path.is_file() {
        return Err(Failure::new(format!("there is no file {path:?}")));
    }
    path.into_os_string()
        .into_string()
        .map_err(|path| Failure::new(format!("cannot use the path {path:?}: it is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_in_a_binary_has_a_place_and_arguments() {
        let rule = probe(
            KernelEventKind::uprobe,
            "/bin/sh:main+0x10 path=+0(%di):string %ax",
            None,
        )
        .unwrap();
        assert_eq!(
            (rule.binary.as_deref(), rule.place.as_deref(), rule.pattern.as_str()),
            (Some("/bin/sh"), Some("main+0x10"), "sh_main_0x10")
        );
        assert_eq!(rule.arguments, ["path=+0(%di):string", "%ax"]);
        let rule = probe(KernelEventKind::uretprobe, "sh:main", Some("left")).unwrap();
        assert_eq!(rule.pattern, "left");
        assert!(rule.binary.unwrap().ends_with("/sh"));
    }

    #[test]
    fn probes_of_authors_and_of_the_kernel_have_forms_of_their_own() {
        let rule = probe(KernelEventKind::usdt, "/bin/sh:libc:setjmp", None).unwrap();
        assert_eq!(
            (rule.binary.as_deref(), rule.pattern.as_str()),
            (Some("/bin/sh"), "libc:setjmp")
        );
        let rule = probe(KernelEventKind::kretprobe, "do_exit $retval", None).unwrap();
        assert_eq!(
            (rule.place.as_deref(), rule.pattern.as_str()),
            (Some("do_exit"), "do_exit_return")
        );
        assert_eq!(rule.arguments, ["$retval"]);
    }

    #[test]
    fn an_address_in_the_kernel_has_the_name_of_its_function() {
        let symbols = KernelSymbols::of_list("ffffffff81000100 T schedule\nffffffff81000200 T _etext\n");
        let symbol = |place| symbol_of(place, || &symbols);
        assert_eq!(symbol("0xffffffff81000100").as_deref(), Some("schedule"));
        assert_eq!(symbol("0xffffffff81000100+16").as_deref(), Some("schedule+0x10"));
        assert_eq!(symbol("0xffffffff81000102+0x2").as_deref(), Some("schedule+0x4"));
        assert_eq!(symbol("0xffffffff81000300"), None);
        assert_eq!(symbol("schedule+0x4"), None);
        let rule = probe(KernelEventKind::kprobe, "0x10 %ax", None).unwrap();
        assert_eq!(
            (rule.place.as_deref(), rule.pattern.as_str()),
            (Some("0x10"), "kernel_0x10")
        );
    }

    #[test]
    fn a_place_of_another_form_is_refused() {
        for (kind, text, said) in [
            (KernelEventKind::uprobe, "main", "form BINARY:SYMBOL"),
            (KernelEventKind::uprobe, "/bin/sh:", "form BINARY:SYMBOL"),
            (KernelEventKind::usdt, "/bin/sh:setjmp", "form BINARY:PROVIDER:NAME"),
            (KernelEventKind::kprobe, "", "form SYMBOL"),
            (KernelEventKind::uprobe, "/no/such/file:main", "there is no file"),
            (KernelEventKind::uprobe, "no-such-program:main", "named"),
        ] {
            match probe(kind, text, None) {
                Err(Failure::Told { sentence, .. }) => assert!(sentence.contains(said), "{sentence}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_files_say_does_not_control_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("\u{1b}[2J");
        std::fs::write(&path, "no program").unwrap();
        let text = format!("{}:main number", path.display());
        match probe(KernelEventKind::uprobe, &text, None) {
            Err(Failure::Told { sentence, .. }) => {
                assert!(
                    sentence.contains("not an ELF program") && !sentence.contains('\u{1b}'),
                    "{sentence:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
