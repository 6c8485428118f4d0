// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages, made from the command line's own description.

use std::path::Path;

use clap::CommandFactory;
use piste_reason::reason;

use crate::arguments::Arguments;
use crate::failure::Failure;

/// `piste man DIR`: piste.1 and one page for each command.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
        .map_err(|error| Failure::new(format!("cannot write man pages to {folder:?}: {}", reason(&error))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path()).unwrap();
        let names: BTreeSet<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for command in Arguments::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            assert!(names.contains(&format!("piste-{}.1", command.get_name())), "{names:?}");
        }
        assert!(
            names.contains("piste.1") && names.contains("piste-snapshot-record.1"),
            "{names:?}"
        );
        let record = fs::read_to_string(folder.path().join("piste-record.1")).unwrap();
        assert!(record.contains("CMD was not found"), "{record}");
    }
}
