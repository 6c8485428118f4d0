// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a schema as metadata of either version, so that traces of one become traces of the other.
//!
//! ```text
//!   schema of CTF 1.8 --text--> TSDL        to_ctf2: names to roles, labels to ranges
//!        ^      |
//!     to_ctf1  to_ctf2                      to_ctf1: roles to names, ranges to labels; what is not in CTF 1.8 is refused
//!        |      v
//!   schema of CTF 2   --text--> JSON
//! ```
//!
//! The streams of the trace are copied as they are: what is written describes the same bytes. CTF 2 has everything of CTF 1.8 but times of events outside of their headers, and packets whose times count on from those of the packet before:
//! these are refused. The other way round:
//!
//! | CTF 2 | CTF 1.8 |
//! |---|---|
//! | boolean, bit array, bit map | unsigned integer, without the names of bits |
//! | BLOB | array or sequence of bytes |
//! | optional | variant with the options `none`, an empty structure, and `some` |
//! | variant, and the selector of it | the selector's values get a name for each option, unless they have it |
//! | minimum alignment of an array | an empty structure of that alignment before it |
//! | namespaces, unique ids, origins other than 1970, accuracy | left out |
//! | variable-length integer, other bit order, UTF-16, UTF-32 | refused |
//! | a way to a length or selector through a variant | refused |

pub mod bits;
mod json;
mod names;
mod to_ctf1;
mod to_ctf2;
mod tsdl;

use std::borrow::Cow;

use crate::read::plan::PlanError;
use crate::read::plan::references::References;
use crate::read::schema::{Schema, Version};

/// Why a schema cannot be written in a version of CTF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Unwritable {
    /// `payload of event 3 of stream 0, field a.b`
    pub place: String,
    /// A sentence.
    pub what: String,
}

impl From<PlanError> for Unwritable {
    fn from(PlanError { place, what }: PlanError) -> Unwritable {
        Unwritable { place, what }
    }
}

/// The metadata file of CTF 1.8 for streams that the schema describes.
///
/// # Errors
/// The first field that CTF 1.8 cannot have.
pub fn tsdl(schema: &Schema) -> Result<String, Unwritable> {
    Ok(tsdl::text(as_version(schema, Version::Ctf1)?.as_ref()))
}

/// The metadata file of CTF 2 for streams that the schema describes.
///
/// # Errors
/// The first field that CTF 2 cannot have.
///
/// ```
/// use piste_ctf::{read::metadata, write};
///
/// let tsdl = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
///     event { name = \"order\"; fields := struct { integer { size = 8; } _id; }; };";
/// let json = write::json(&metadata::parse(tsdl.as_bytes())?)?;
/// assert!(json.contains(r#"{"name":"id","field-class":{"type":"fixed-length-unsigned-integer","length":8"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn json(schema: &Schema) -> Result<String, Unwritable> {
    Ok(json::text(as_version(schema, Version::Ctf2)?.as_ref()))
}

/// The same schema as one of another version: names, roles and types are those that the version has, and describe the same bytes.
///
/// # Errors
/// The first field that the version cannot have.
pub fn as_version(schema: &Schema, version: Version) -> Result<Cow<'_, Schema>, Unwritable> {
    if version == Version::Ctf2 && schema.streams.is_empty() {
        return Err(Unwritable {
            place: "trace".into(),
            what: "it describes no stream, but CTF 2 metadata must describe at least one".into(),
        });
    }
    // Also that what is written is of a size that can be written.
    let references = References::find(schema)?;
    Ok(match (schema.version, version) {
        (Version::Ctf1, Version::Ctf1) | (Version::Ctf2, Version::Ctf2) => Cow::Borrowed(schema),
        (Version::Ctf1, Version::Ctf2) => Cow::Owned(to_ctf2::translate(schema, &references)?),
        (Version::Ctf2, Version::Ctf1) => Cow::Owned(to_ctf1::translate(schema, &references)?),
    })
}
