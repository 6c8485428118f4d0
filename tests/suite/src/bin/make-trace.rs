// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a trace of a machine that nobody has: `make-trace FOLDER CPUS THREADS EVENTS`.

use std::error::Error;
use std::path::Path;

use piste_support::made_trace::{Shape, write};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, cpus, threads, events] = &arguments[..] else {
        return Err("usage: make-trace FOLDER CPUS THREADS EVENTS".into());
    };
    let shape = Shape {
        cpus: cpus.parse()?,
        threads: threads.parse()?,
        events: events.parse()?,
    };
    Ok(write(Path::new(folder), shape)?)
}
