// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages and completions, made from the command line's own description.

use std::path::Path;

use clap::CommandFactory;
use piste_control::error::reason;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::screen;

/// `piste completions SHELL`
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "piste", &mut script);
    screen::show(&String::from_utf8_lossy(&script))
}

/// `piste man DIR`: piste.1 and one page for each command.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
        .map_err(|error| Failure::new(format!("cannot write man pages to {folder:?}: {}", reason(&error))))
}
