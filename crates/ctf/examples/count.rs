// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events of a trace by their names: `cargo run --release -p piste-ctf --example count FOLDER`.
//!
//! Reads each stream file into memory as a whole, which is enough for small traces.

use std::collections::BTreeMap;
use std::error::Error;
use std::{env, fs};

use piste_ctf::read::metadata;
use piste_ctf::read::packet::{Next, StreamReader};
use piste_ctf::read::plan::Plan;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("which folder?")?;
    let plan = Plan::new(metadata::parse(&fs::read(format!("{folder}/metadata"))?)?)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if !path.is_file() || path.ends_with("metadata") {
            continue;
        }
        let bytes = fs::read(&path)?;
        let mut rest = &bytes[..];
        let mut reader = StreamReader::new(&plan);
        while !rest.is_empty() {
            let total_bits = reader.packet(rest)?.total_bits;
            let packet_bytes = total_bits
                .map_or(rest.len(), |bits| (bits / 8) as usize)
                .min(rest.len());
            loop {
                match reader.next(&rest[..packet_bytes], 0) {
                    Next::Event(event) => match counts.get_mut(&*event.class.name) {
                        Some(count) => *count += 1,
                        None => {
                            counts.insert(event.class.name.to_string(), 1);
                        }
                    },
                    Next::End => break,
                    // A packet that does not say how long it is ends with its file.
                    Next::Short if reader.position() == 8 * packet_bytes as u64 => break,
                    other => return Err(format!("{path:?}: {other:?}").into()),
                }
            }
            rest = &rest[packet_bytes..];
        }
    }
    for (name, count) in counts {
        println!("{count:>12} {name}");
    }
    Ok(())
}
