// SPDX-License-Identifier: MIT OR Apache-2.0
//! The executable `pisted`.

use std::io;

fn main() -> io::Result<()> {
    // The consumer inherits its listening socket as standard input.
    if std::env::args().nth(1).as_deref() == Some("--consumer") {
        let _ = rustix::process::setsid();
        return piste_daemon::consumer::run(rustix::io::dup(io::stdin())?);
    }
    Ok(())
}
