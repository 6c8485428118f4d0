// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata may come in packets, so that it can be sent beside the events. Each has a header of 37 bytes in CTF 1.8, of 44 in CTF 2, in the
//! byte order of whoever wrote it:
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | 0x75D11D57 |
//! | 4 | 16 | uuid of the trace |
//! | 20 | 4 | checksum |
//! | 24 | 4 | bits of header and text |
//! | 28 | 4 | bits of the packet |
//! | 32 | 3 | compression, encryption and checksum scheme; 0 for none |
//! | 35 | 2 | major and minor version |
//! | 37 | 3 | reserved; CTF 2 only |
//! | 40 | 4 | bits of the header; CTF 2 only |

use std::borrow::Cow;

use crate::read::schema::ByteOrder;

const MAGIC: u32 = 0x75d1_1d57;
const HEADER_BYTES: usize = 37;
const HEADER_BYTES_CTF2: usize = 44;

/// Why packets of metadata are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet {number}: it {what}")]
pub struct PacketError {
    /// From 1.
    pub number: u32,
    /// The rest of a sentence.
    pub what: String,
}

/// What the packets hold together, and the byte order of whoever packed it; metadata without packets as it is.
///
/// # Errors
/// A packet that is none, or that is compressed or encrypted.
pub fn content(metadata: &[u8]) -> Result<(Cow<'_, [u8]>, Option<ByteOrder>), PacketError> {
    let Salvaged { content, order, fault } = salvage(metadata);
    fault.map_or(Ok((content, order)), Err)
}

/// What there is before the first fault.
pub(super) struct Salvaged<'m> {
    pub(super) content: Cow<'m, [u8]>,
    pub(super) order: Option<ByteOrder>,
    pub(super) fault: Option<PacketError>,
}

/// The same to the first packet that is none; of one that the file cuts, what is left of it.
pub(super) fn salvage(metadata: &[u8]) -> Salvaged<'_> {
    let Some(order) = byte_order(metadata) else {
        return Salvaged {
            content: Cow::Borrowed(metadata),
            order: None,
            fault: None,
        };
    };
    let (mut content, mut fault) = (Vec::new(), None);
    let mut rest = metadata;
    let mut number = 0;
    while !rest.is_empty() && fault.is_none() {
        number += 1;
        match packet(rest, order) {
            Ok(Packet { text, behind, is_cut }) => {
                content.extend_from_slice(text);
                let what = "is truncated by the end of the file".to_owned();
                fault = is_cut.then_some(PacketError { number, what });
                rest = behind;
            }
            Err(what) => fault = Some(PacketError { number, what }),
        }
    }
    Salvaged {
        content: Cow::Owned(content),
        order: Some(order),
        fault,
    }
}

struct Packet<'m> {
    text: &'m [u8],
    /// The packets that follow.
    behind: &'m [u8],
    is_cut: bool,
}

/// The first packet.
fn packet(rest: &[u8], order: ByteOrder) -> Result<Packet<'_>, String> {
    let word = |offset: usize| {
        let bytes = rest[offset..offset + 4].try_into().expect("four bytes");
        let word = match order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        };
        word as usize
    };
    if rest.len() < HEADER_BYTES {
        return Err(format!(
            "is shorter than its header of {HEADER_BYTES} bytes: {} are left",
            rest.len()
        ));
    }
    if word(0) != MAGIC as usize {
        return Err("does not begin with 0x75D11D57".into());
    }
    if rest[32] != 0 || rest[33] != 0 {
        return Err("is compressed or encrypted, and no version of CTF defines how to read that".into());
    }
    let mut header_bytes = HEADER_BYTES;
    // Some tracers write version 2 into the short header: its text begins where the long one says how long it is.
    if rest[35] == 2 && rest.len() >= HEADER_BYTES_CTF2 && word(40) == 8 * HEADER_BYTES_CTF2 {
        header_bytes = HEADER_BYTES_CTF2;
    }
    let (content_bytes, packet_bytes) = (word(24) / 8, word(28) / 8);
    if content_bytes < header_bytes || packet_bytes < content_bytes {
        return Err(format!(
            "claims {content_bytes} bytes of content in {packet_bytes} bytes, but {} are left",
            rest.len()
        ));
    }
    // The last one may be cut short behind its content.
    Ok(Packet {
        text: &rest[header_bytes..content_bytes.min(rest.len())],
        behind: &rest[packet_bytes.min(rest.len())..],
        is_cut: rest.len() < content_bytes,
    })
}

fn byte_order(metadata: &[u8]) -> Option<ByteOrder> {
    let magic = *metadata.first_chunk()?;
    if u32::from_le_bytes(magic) == MAGIC {
        Some(ByteOrder::Little)
    } else {
        (u32::from_be_bytes(magic) == MAGIC).then_some(ByteOrder::Big)
    }
}
