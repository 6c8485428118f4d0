// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata of a trace of the kernel domain.
//!
//! It differs from that of programs in what stands where: packets say which CPU they are from, a stream class may carry any fields as
//! contexts, and records lie one behind the other without padding.

use super::{Form, event_text, fields_text, opening_of, stream_text};
use crate::description::{EventClass, KernelStreamClass, Trace};

/// The start of the metadata file; see [`opening`](super::opening).
pub fn opening(trace: &Trace) -> String {
    let form = Form {
        packet_place: "\tuint32_t cpu_id;\n",
        record_bits: 8,
    };
    opening_of(trace, &form)
}

/// The streams of a channel.
pub fn stream_class(class: &KernelStreamClass) -> String {
    stream_text(class.id, &fields_text(&class.contexts))
}

/// An event of the stream class with the id `stream_id`.
pub fn event_class(stream_id: u32, class: &EventClass) -> String {
    event_text(stream_id, class)
}
