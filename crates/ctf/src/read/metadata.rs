// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata in either language: which one it is, and the schema that it says.

pub mod packets;

use packets::PacketError;

use super::schema::Schema;
use super::{json, tsdl};

/// Why metadata cannot be understood, with the place in it. Whoever shows it says of which file it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Metadata in packets that are none.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// CTF 1.8.
    #[error(transparent)]
    Tsdl(#[from] tsdl::MetadataError),
    /// CTF 2.
    #[error(transparent)]
    Json(#[from] json::FragmentError),
}

/// Understands metadata of CTF 1.8 or CTF 2, as text or in packets of it.
///
/// # Errors
/// What is wrong first.
///
/// ```
/// use piste_ctf::read::metadata;
///
/// let text = "\u{1e}{\"type\": \"preamble\", \"version\": 2}\n\u{1e}{\"type\": \"data-stream-class\", \"id\": \"five\"}\n";
/// let error = metadata::parse(text.as_bytes()).expect_err("an id is a number");
/// assert_eq!(error.to_string(), "fragment 2, id: expected a whole number that is not negative, not \"five\"");
/// ```
pub fn parse(metadata: &[u8]) -> Result<Schema, MetadataError> {
    let Salvaged { schema, faults } = salvage(metadata)?;
    faults.into_iter().next().map_or(Ok(schema), Err)
}

/// What damaged metadata says.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// Made of the parts that are whole and sound.
    pub schema: Schema,
    /// What is wrong with the others, in their order; nothing for metadata that is as it should be.
    pub faults: Vec<MetadataError>,
}

/// Understands as much as there is to understand of metadata that a crash has cut, or that is wrong in a part of it: blocks of CTF 1.8,
/// fragments of CTF 2. Classes of events and streams that depend on what is missing are left out as well.
///
/// # Errors
/// What is wrong first, where everything else depends on it, or where no class of events is left.
///
/// ```
/// use piste_ctf::read::metadata;
///
/// let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; }; event { id = 0; name = whole; }; event { id = 1; na";
/// let salvaged = metadata::salvage(text.as_bytes())?;
/// assert_eq!(salvaged.schema.streams[&0].events.len(), 1);
/// assert_eq!(salvaged.faults.len(), 1);
/// assert!(metadata::parse(text.as_bytes()).is_err());
/// # Ok::<(), metadata::MetadataError>(())
/// ```
pub fn salvage(metadata: &[u8]) -> Result<Salvaged, MetadataError> {
    let packets::Salvaged { content, order, fault } = packets::salvage(metadata);
    let mut faults = Vec::from_iter(fault.map(MetadataError::Packet));
    let understood = match json::is_json(&content) {
        true => json::salvage(&content)
            .map(|(schema, wrong)| (schema, wrong.into_iter().map(MetadataError::Json).collect::<Vec<_>>()))
            .map_err(MetadataError::Json),
        false => tsdl::salvage_text(&String::from_utf8_lossy(&content), order)
            .map(|(schema, wrong)| (schema, wrong.into_iter().map(MetadataError::Tsdl).collect()))
            .map_err(MetadataError::Tsdl),
    };
    match understood {
        Ok((schema, wrong)) => {
            faults.extend(wrong);
            let has_events = schema.streams.values().any(|stream| !stream.events.is_empty());
            match has_events || faults.is_empty() {
                true => Ok(Salvaged { schema, faults }),
                false => Err(faults.swap_remove(0)),
            }
        }
        Err(fault) => Err(match faults.is_empty() {
            true => fault,
            false => faults.swap_remove(0),
        }),
    }
}
