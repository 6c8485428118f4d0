// SPDX-License-Identifier: MIT OR Apache-2.0
//! CTF: bytes and text in, bytes and text out. No I/O.
//!
//! - [`read`]: traces of any tracer, CTF 1.8 and CTF 2;
//! - [`write`](mod@write): what was read as metadata of either version.
//!
//! CTF 1.8 as Piste writes it:
//!
//! - [`description`]: what a trace holds, as plain data;
//! - [`metadata`]: the same as TSDL, the text that readers need;
//! - [`packet`], [`index`]: the header of each packet, and its entry in the index file;
//! - [`layout`]: checks the records that a program wrote into a packet.
//!
//! A packet on its way from a program's ring to a stream file:
//!
//! ```
//! use piste_ctf::packet::{HEADER_BYTES, Header};
//! use piste_ctf::{Base, Element, EventClass, Field, FieldKind, Layouts, StreamClass, index, metadata};
//!
//! // An event of a channel without contexts, described once in the metadata file.
//! let stream = StreamClass { id: 0, channel: "channel0".into(), contexts: vec![] };
//! let field = Field { name: "id".into(), kind: FieldKind::Scalar { element: Element::Int32, base: Base::Decimal } };
//! let order = EventClass { id: 0, name: "shop:order".into(), level: 13, contexts: vec![], fields: vec![field] };
//! assert!(metadata::event_class(stream.id, &order).contains("name = \"shop:order\";"));
//!
//! // The program recorded order 42 at tick 1000, then something that is no event.
//! let mut packet = vec![0; HEADER_BYTES];
//! packet.extend((1000u32 << 5 | order.id).to_le_bytes());
//! packet.extend(42i32.to_le_bytes());
//! packet.extend([0xff; 8]);
//!
//! // The consumer keeps what is good, and counts the rest as a finding.
//! let mut layouts = Layouts::new(stream.contexts);
//! layouts.insert(&order);
//! let checked = layouts.check(&packet, packet.len() as u32, 1000, 2000);
//! assert_eq!((checked.records, checked.last_ticks), (1, 1000));
//! let fault = checked.fault.expect("eight bytes are no record");
//! assert_eq!(fault.to_string(), "offset 104: the record needs at least 13 bytes, but only 8 are left");
//!
//! // It cuts the packet to whole units, completes the header, and notes the packet in the index.
//! packet.truncate(checked.content_bytes.next_multiple_of(8) as usize);
//! let header = Header {
//!     timestamp_begin: 1000,
//!     timestamp_end: checked.last_ticks,
//!     content_bits: 8 * u64::from(checked.content_bytes),
//!     packet_bits: 8 * packet.len() as u64,
//!     ..Header::default()
//! };
//! packet[..HEADER_BYTES].copy_from_slice(&header.encode());
//! let entry = index::Entry::of(&header, 0);
//! # assert_eq!(Header::decode(&packet), Some(header));
//! # assert_eq!(entry.packet_bits, 8 * 104);
//! ```

pub mod description;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod index;
pub mod layout;
pub mod metadata;
pub mod packet;
pub mod read;
pub mod write;

pub use description::*;
pub use layout::{Checked, Fault, Layouts, Wrong};

// A compact header has its id in the low bits of a word, ahead of the time; CTF can say so only of little-endian words.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "piste records on little-endian machines only"
);
