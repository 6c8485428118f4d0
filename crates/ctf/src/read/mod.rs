// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads CTF of any tracer: CTF 1.8 and CTF 2, whatever their layout. Bytes in, values out; no I/O.
//!
//! ```text
//!   metadata --tsdl, json--> schema --plan--> packets: events with their times, fields decoded when they are asked for
//! ```
//!
//! - [`metadata`]: metadata of either version; start here to read;
//! - [`schema`]: what a trace's metadata says, for both versions of the format;
//! - [`tsdl`], [`json`]: the languages of metadata of CTF 1.8 and CTF 2;
//! - [`plan`]: a schema, compiled for reading;
//! - [`packet`]: packets and their events, passed over in leaps (`leap`) or walked over ([`walk`]);
//! - [`symbols`]: names of addresses beside the addresses;
//! - [`text`]: events as lines of text;
//! - [`json_value`]: values as JSON;
//! - [`characters`]: texts of any encoding as UTF-8;
//! - [`clock`], for the times of events;
//! - [`cursor`]: over bits.
//!
//! ```
//! use piste_ctf::read::metadata;
//! use piste_ctf::read::packet::{Next, StreamReader};
//! use piste_ctf::read::plan::Plan;
//! use piste_ctf::read::text::{PacketText, Printer, TimeFormat, Times, WallTime};
//!
//! let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
//!     event { name = order; fields := struct { integer { size = 8; } id; string tea; }; };";
//! let plan = Plan::new(metadata::parse(text.as_bytes())?)?;
//! // A stream file of one packet: the metadata describes neither headers nor sizes.
//! let packet = b"\x2agreen\0\x07black\0";
//!
//! let mut reader = StreamReader::new(&plan);
//! let mut printer = Printer::new(&plan);
//! let mut times = Times::new(TimeFormat::TimeOfDay, |seconds| Some(WallTime::utc(seconds)));
//! let (mut of_packet, mut out) = (PacketText::default(), Vec::new());
//! reader.packet(packet)?;
//! reader.end_at(8 * packet.len() as u64);
//! printer.packet(&mut of_packet, &mut reader, packet)?;
//! while let Next::Event(event) = reader.next(packet, 0) {
//!     printer.event(&mut out, &mut times, &mut of_packet, &mut reader, &event, (packet, 0))?;
//! }
//! assert_eq!(out, b"order: { id = 42, tea = \"green\" }\norder: { id = 7, tea = \"black\" }\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/count.rs` and `examples/text.rs` read the files of a trace.

pub mod characters;
pub mod clock;
pub mod cursor;
pub(crate) mod extent;
pub mod json;
pub mod json_value;
mod leap;
pub mod metadata;
pub mod packet;
pub mod plan;
pub(crate) mod roles;
pub mod schema;
pub mod symbols;
pub mod text;
pub mod tsdl;
pub mod walk;
