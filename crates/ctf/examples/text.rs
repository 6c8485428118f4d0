// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the events of a trace, in UTC: `cargo run --release -p piste-ctf --example text FOLDER`.
//!
//! Reads each stream file into memory as a whole, one after the other, which is enough for traces with one stream.

use std::error::Error;
use std::io::Write;
use std::{env, fs, io};

use piste_ctf::read::metadata;
use piste_ctf::read::packet::{Next, StreamReader};
use piste_ctf::read::plan::Plan;
use piste_ctf::read::text::{PacketText, Printer, TimeFormat, Times, WallTime};

const OUT_BYTES: usize = 64 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("which folder?")?;
    let plan = Plan::new(metadata::parse(&fs::read(format!("{folder}/metadata"))?)?)?;
    let mut printer = Printer::new(&plan);
    let mut times = Times::new(TimeFormat::TimeOfDay, |seconds| Some(WallTime::utc(seconds)));
    let mut out = Vec::with_capacity(2 * OUT_BYTES);
    let mut stdout = io::stdout().lock();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if !path.is_file() || path.ends_with("metadata") {
            continue;
        }
        let bytes = fs::read(&path)?;
        let mut rest = &bytes[..];
        let mut reader = StreamReader::new(&plan);
        let mut packet_text = PacketText::default();
        while !rest.is_empty() {
            let total_bits = reader.packet(rest)?.total_bits;
            let packet_bytes = total_bits.map_or(rest.len(), |bits| (bits / 8) as usize);
            let packet = &rest[..packet_bytes.min(rest.len())];
            printer.packet(&mut packet_text, &mut reader, packet)?;
            loop {
                match reader.next(packet, 0) {
                    Next::Event(event) => {
                        printer.event(&mut out, &mut times, &mut packet_text, &mut reader, &event, (packet, 0))?;
                    }
                    Next::End => break,
                    other => return Err(format!("{path:?}: {other:?}").into()),
                }
                if out.len() >= OUT_BYTES {
                    stdout.write_all(&out)?;
                    out.clear();
                }
            }
            rest = &rest[packet.len()..];
        }
    }
    stdout.write_all(&out)?;
    Ok(())
}
