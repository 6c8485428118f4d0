// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events of all traces in a folder, in the order of time: `cargo run --release -p piste-trace --example merge FOLDER`.

use std::error::Error;
use std::path::Path;
use std::{env, time::Instant};

use piste_trace::merge::Span;
use piste_trace::{Findings, Merge, open};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("which folder?")?;
    let began = Instant::now();
    let mut findings = Findings::default();
    let traces = open(Path::new(&folder), &mut findings)?;
    let opened = began.elapsed();
    let mut merge = Merge::new(&traces, Span::ALL)?;
    let mut count = 0_u64;
    while merge.next().is_some() {
        count += 1;
    }
    findings.extend(std::mem::take(&mut merge.findings));
    let elapsed = began.elapsed();
    println!(
        "{count} events, opened in {opened:?}, read in {elapsed:?}, {:.1} ns each",
        elapsed.as_nanos() as f64 / count as f64
    );
    for finding in findings.iter() {
        println!("{finding:?}");
    }
    Ok(())
}
