// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doctor on this machine.

use piste_kernel::doctor::{Level, checks};
use piste_kernel::tracefs::Tracefs;

#[test]
fn this_machine_is_looked_at_without_a_word_left_out() {
    let run_folder = tempfile::tempdir().expect("a folder");
    let checks = checks(run_folder.path());
    for check in &checks {
        println!("{check:?}");
        assert!(!check.name.is_empty() && !check.value.is_empty(), "{check:?}");
        assert_eq!(check.level == Level::Ok, check.cost.is_none(), "{check:?}");
    }
    let level = |name: &str| checks.iter().find(|check| check.name == name).map(|check| check.level);
    assert_eq!(level("memfd"), Some(Level::Ok));
    assert_eq!(level("run folder"), Some(Level::Ok));
    let is_found = Tracefs::find().is_ok();
    assert_eq!(level("tracefs") == Some(Level::Ok), is_found);
    assert_eq!(level("system calls").is_some(), is_found);
    assert_eq!(level("event formats") == Some(Level::Ok), is_found);
}
