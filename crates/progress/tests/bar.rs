// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bar on a terminal: this test runs itself in one, where it waits until it was drawn.

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use piste_progress::Progress;
use piste_trace::progress::Way;

/// Set in the terminal: whether the bar is wanted.
const WANTED: &str = "PISTE_TEST_BAR_WANTED";

#[test]
fn a_terminal_shows_how_far_it_is_and_is_clean_afterwards() {
    if let Ok(wanted) = env::var(WANTED) {
        return show(wanted == "true");
    }
    let shown = in_a_terminal("true");
    for part in ["counting", "25 %", " left"] {
        assert!(shown.contains(part), "{part:?} in {shown:?}");
    }
    // The line is erased before what is said next.
    let (bar, said) = shown.rsplit_once("said").expect("it goes on");
    assert!(bar.ends_with("\u{1b}[2K") || bar.ends_with("\r"), "{shown:?}");
    assert!(!said.contains("counting"), "{shown:?}");
    assert!(!in_a_terminal("false").contains("counting"));
}

fn in_a_terminal(wanted: &str) -> String {
    let this = env::current_exe().expect("this test");
    let command = format!("{} --nocapture", this.display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env(WANTED, wanted)
        .env("TERM", "xterm")
        .output()
        .expect("script (Debian: bsdutils) runs");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}");
    shown
}

fn show(is_wanted: bool) {
    let looks = Arc::new(AtomicU64::new(0));
    let counted = looks.clone();
    let way = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Way {
            done_bytes: 25 << 20,
            total_bytes: 100 << 20,
        }
    };
    let progress = Progress::on_the_way("counting", way, is_wanted);
    // Drawn at the second look: a rate and a time left need two.
    while is_wanted && looks.load(Ordering::SeqCst) < 3 {
        thread::sleep(Duration::from_millis(10));
    }
    drop(progress);
    eprint!("said");
}
