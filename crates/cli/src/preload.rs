// SPDX-License-Identifier: MIT OR Apache-2.0
//! The helper libraries that record what a program without events of its own does: their names, where they are, and the
//! environment that loads them. The helpers themselves are runtime/preload/.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use piste_reason::reason;

use crate::failure::Failure;
use piste_patterns::nearest;

pub(crate) const HELPERS: [&str; 5] = ["libc", "libc-callers", "pthread", "dl", "functions"];
/// They record the same calls.
const EITHER: [&str; 2] = ["libc", "libc-callers"];

/// What LD_PRELOAD becomes for these helpers: they come before what it has already.
///
/// # Errors
/// A helper's name is unknown, its library is not installed, or two of them record the same.
pub(crate) fn setting(helpers: &[String]) -> Result<Option<OsString>, Failure> {
    if helpers.is_empty() {
        return Ok(None);
    }
    if EITHER.iter().all(|one| helpers.iter().any(|helper| helper == one)) {
        let [one, other] = EITHER;
        return Err(Failure::new(format!(
            "cannot load both helpers {one:?} and {other:?}: they record the same calls; use one of them"
        )));
    }
    let folder = library_folder()?;
    let libraries = helpers
        .iter()
        .map(|helper| library(&folder, helper))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Some(joined(&libraries, env::var_os("LD_PRELOAD"))))
}

/// `$PISTE_LIBDIR`, else `../lib/piste` beside the folder of this command.
fn library_folder() -> Result<PathBuf, Failure> {
    if let Some(folder) = env::var_os("PISTE_LIBDIR").filter(|folder| !folder.is_empty()) {
        return std::path::absolute(&folder)
            .map_err(|error| Failure::new(format!("cannot use PISTE_LIBDIR {folder:?}: {}", reason(&error))));
    }
    let program = env::current_exe().map_err(|error| {
        Failure::new(format!(
            "cannot find the folder of the helpers: {}; set PISTE_LIBDIR",
            reason(&error)
        ))
    })?;
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    Ok(prefix.join("lib/piste"))
}

fn library(folder: &Path, helper: &str) -> Result<PathBuf, Failure> {
    if !HELPERS.contains(&helper) {
        let hint = match nearest(helper, HELPERS, 1).first() {
            Some(near) => format!("did you mean {near:?}? The helpers are"),
            None => "the helpers are".into(),
        };
        return Err(Failure::new(format!(
            "there is no helper {helper:?}; {hint} {}",
            HELPERS.join(", ")
        )));
    }
    let path = folder.join(format!("libpiste-{helper}.so"));
    if !path.is_file() {
        return Err(Failure::new(format!(
            "helper {helper:?} is not installed: {path:?} is missing; run `make install` in Piste's source folder or install a package of Piste, or set PISTE_LIBDIR to the folder that contains it"
        )));
    }
    // The dynamic linker separates the list at both.
    if path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| matches!(byte, b' ' | b':'))
    {
        return Err(Failure::new(format!(
            "cannot preload {path:?}: LD_PRELOAD does not allow spaces or colons in a path; set PISTE_LIBDIR to another folder"
        )));
    }
    Ok(path)
}

fn joined(libraries: &[PathBuf], before: Option<OsString>) -> OsString {
    let mut setting = OsString::new();
    let parts = libraries
        .iter()
        .map(|library| library.as_os_str().to_owned())
        .chain(before);
    for part in parts.filter(|part| !part.is_empty()) {
        if !setting.is_empty() {
            setting.push(":");
        }
        setting.push(part);
    }
    setting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(folder: &Path, helper: &str) -> String {
        match library(folder, helper) {
            Err(Failure::Told { sentence, .. }) => sentence,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn helpers_come_before_what_was_preloaded() {
        let libraries = [PathBuf::from("/p/a.so"), PathBuf::from("/p/b.so")];
        assert_eq!(
            joined(&libraries, Some("/x.so /y.so".into())),
            "/p/a.so:/p/b.so:/x.so /y.so"
        );
        assert_eq!(joined(&libraries, Some("".into())), "/p/a.so:/p/b.so");
        assert_eq!(joined(&libraries[..1], None), "/p/a.so");
    }

    #[test]
    fn a_helper_that_is_unknown_missing_or_cannot_be_named_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            sentence(folder.path(), "pthreads"),
            r#"there is no helper "pthreads"; did you mean "pthread"? The helpers are libc, libc-callers, pthread, dl, functions"#
        );
        assert!(sentence(folder.path(), "dl").contains("is not installed"));

        let spaced = folder.path().join("a b");
        std::fs::create_dir(&spaced).unwrap();
        std::fs::write(spaced.join("libpiste-dl.so"), "").unwrap();
        assert!(sentence(&spaced, "dl").contains("spaces or colons"));
    }
}
