// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as a program's library writes them, and as pisted reads none of: this side is written apart from the other.

use piste_abi::{
    IntoBytes, PISTE_MESSAGE_MAGIC, piste_event_description, piste_field_description, piste_label_description,
    piste_message, piste_message_events, piste_message_hello, piste_message_module_gone, piste_message_refused,
    piste_message_sync,
};

pub fn hello(instance_id: u64, attached: &[u32], record_id: [u8; 16]) -> Vec<u8> {
    let path = b"/usr/bin/shop";
    let mut process_name = [0; 16];
    process_name[..4].copy_from_slice(b"shop");
    let hello = piste_message_hello {
        message: header(piste_abi::PISTE_MESSAGE_HELLO),
        version_major: piste_abi::PISTE_ABI_MAJOR as u16,
        version_minor: 0,
        struct_bytes: size_of::<piste_message_hello>() as u32,
        instance_id,
        vpid: 4711,
        vppid: 1,
        pointer_bits: 64,
        ring_index: 0,
        attached_count: attached.len() as u16,
        path_bytes: path.len() as u32,
        process_name,
        record_id,
    };
    total([hello.as_bytes(), attached.as_bytes(), path].concat())
}

pub fn events(module_id: u32, descriptions: &[Vec<u8>]) -> Vec<u8> {
    let message = header(piste_abi::PISTE_MESSAGE_EVENTS);
    let events = piste_message_events {
        message,
        module_id,
        event_count: descriptions.len() as u32,
    };
    total([events.as_bytes(), &descriptions.concat()].concat())
}

pub fn module_gone(module_id: u32) -> Vec<u8> {
    let message = header(piste_abi::PISTE_MESSAGE_MODULE_GONE);
    total(
        piste_message_module_gone {
            message,
            module_id,
            reserved: 0,
        }
        .as_bytes()
        .to_vec(),
    )
}

pub fn refused(key: u32, reason: u32) -> Vec<u8> {
    let message = header(piste_abi::PISTE_MESSAGE_REFUSED);
    total(piste_message_refused { message, key, reason }.as_bytes().to_vec())
}

pub fn sync(token: u64) -> Vec<u8> {
    total(
        piste_message_sync {
            message: header(piste_abi::PISTE_MESSAGE_SYNC),
            token,
        }
        .as_bytes()
        .to_vec(),
    )
}

pub fn synced(token: u64) -> Vec<u8> {
    total(
        piste_message_sync {
            message: header(piste_abi::PISTE_MESSAGE_SYNCED),
            token,
        }
        .as_bytes()
        .to_vec(),
    )
}

/// An event of level DEBUG_LINE.
pub fn event(index: u32, provider: &str, name: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let description = piste_event_description {
        total_bytes: 0,
        event_index: index,
        level: 13,
        reserved: 0,
        field_count: fields.len() as u16,
        provider_bytes: provider.len() as u16,
        name_bytes: name.len() as u16,
    };
    let names = padded([provider.as_bytes(), name.as_bytes()].concat());
    item([description.as_bytes(), &names, &fields.concat()].concat())
}

pub fn int32(name: &str) -> Vec<u8> {
    field(name, piste_abi::PISTE_FIELD_SCALAR, piste_abi::PISTE_ELEMENT_INT32, 0)
}

pub fn field(name: &str, kind: u32, element: u32, count: u32) -> Vec<u8> {
    let description = description(name, kind, element, count, 0);
    item([description.as_bytes(), &padded(name.as_bytes().to_vec())].concat())
}

pub fn enumeration(name: &str, labels: &[(&str, i64)]) -> Vec<u8> {
    let (kind, element) = (piste_abi::PISTE_FIELD_ENUM, piste_abi::PISTE_ELEMENT_INT32);
    let description = description(name, kind, element, 0, labels.len() as u16);
    let labels: Vec<u8> = labels
        .iter()
        .flat_map(|&(label, value)| {
            let description = piste_label_description {
                total_bytes: 0,
                label_bytes: label.len() as u16,
                reserved: 0,
                value,
            };
            item([description.as_bytes(), &padded(label.as_bytes().to_vec())].concat())
        })
        .collect();
    item([description.as_bytes(), &padded(name.as_bytes().to_vec()), &labels].concat())
}

fn description(name: &str, kind: u32, element: u32, count: u32, label_count: u16) -> piste_field_description {
    piste_field_description {
        total_bytes: 0,
        kind: kind as u8,
        element: element as u8,
        base: 10,
        flags: 0,
        name_bytes: name.len() as u16,
        label_count,
        count,
    }
}

fn header(type_: u32) -> piste_message {
    piste_message {
        magic: PISTE_MESSAGE_MAGIC,
        type_,
        total_bytes: 0,
        reserved: 0,
    }
}

/// Fills in the size of a message, the third word.
fn total(mut bytes: Vec<u8>) -> Vec<u8> {
    let total = bytes.len() as u32;
    bytes[8..12].copy_from_slice(&total.to_ne_bytes());
    bytes
}

/// Fills in the size of a description, the first word.
fn item(mut bytes: Vec<u8>) -> Vec<u8> {
    let total = bytes.len() as u32;
    bytes[..4].copy_from_slice(&total.to_ne_bytes());
    bytes
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}
