// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of include/piste/abi/protocol.h as values. Bytes come in and go out; the socket is programs.rs.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::rc::Rc;

use piste_abi::{
    FromBytes, IntoBytes, PISTE_ABI_MAJOR, PISTE_CHANNEL_COUNT_MAX, PISTE_MESSAGE_BYTES_MAX, PISTE_MESSAGE_MAGIC,
    piste_enabled_event, piste_message, piste_message_bell, piste_message_channel, piste_message_enable,
    piste_message_events, piste_message_filter, piste_message_hello, piste_message_module_gone, piste_message_refused,
    piste_message_sync,
};

use crate::description::{EventBlock, Interner, Malformed, printable};
use crate::link::RingSetKey;

/// From a program.
#[derive(Debug, PartialEq)]
pub enum FromProgram {
    /// The program says who it is.
    Hello(Hello),
    /// The program speaks another version of the protocol, and cannot be understood.
    Foreign {
        /// `MAJOR.MINOR`
        version: String,
    },
    /// Some of a module's events.
    Events {
        /// The module.
        module: u32,
        /// The events.
        block: Rc<EventBlock>,
        /// What they take in the message.
        bytes: usize,
    },
    /// A library was unloaded.
    ModuleGone {
        /// The module.
        module: u32,
    },
    /// The program could not attach a channel.
    Refused {
        /// The ring set.
        key: RingSetKey,
        /// Why, for people.
        reason: String,
    },
    /// The program waited for an answer as long as it may, and went on.
    Late,
    /// The program waits for what it sent to have taken effect.
    Sync {
        /// To be repeated in the answer.
        token: u64,
    },
    /// What was sent before that token has taken effect.
    Synced {
        /// The token.
        token: u64,
    },
}

/// What a program says about itself. None of it is trusted for more than showing it; the process id comes from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Drawn by the program, once per process.
    pub instance_id: u64,
    /// Process id in the program's own pid namespace.
    pub vpid: i32,
    /// Ring sets that it still has from an earlier pisted.
    pub attached: Vec<RingSetKey>,
    /// As in /proc/PID/comm.
    pub name: String,
    /// The executable.
    pub path: String,
    /// Of `piste record`.
    pub record_id: Option<[u8; 16]>,
}

/// To a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToProgram {
    /// Attach the memory that comes with the message.
    Channel {
        /// The ring set.
        key: RingSetKey,
        /// The ring set whose events it takes over.
        replaces: Option<RingSetKey>,
    },
    /// The channel that comes next has a bell on the board that comes with the message.
    Bell {
        /// Which of its bells.
        index: u32,
    },
    /// Detach it.
    ChannelGone {
        /// The ring set.
        key: RingSetKey,
    },
    /// Record these events.
    Enable {
        /// The ring set.
        key: RingSetKey,
        /// The events.
        events: Vec<EnabledEvent>,
    },
    /// Record these events no longer.
    Disable {
        /// The ring set.
        key: RingSetKey,
        /// The events; their class does not matter.
        events: Vec<EnabledEvent>,
    },
    /// Record what is loaded where.
    StateDump {
        /// The ring set.
        key: RingSetKey,
    },
    /// Say `Synced` when everything before has taken effect.
    Sync {
        /// To be repeated in the answer.
        token: u64,
    },
    /// Everything before that token has taken effect.
    Synced {
        /// The token.
        token: u64,
    },
}

/// An event of a program and its class in a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnabledEvent {
    /// The module.
    pub module: u32,
    /// Number of the event in the module.
    pub index: u32,
    /// The class.
    pub class: u32,
    /// What lets it pass; without one, it always does.
    pub filter: Option<Rc<[u8]>>,
}

/// Checks one datagram of a user's program and turns it into a value.
///
/// # Errors
/// What is not as piste/abi/protocol.h says.
pub fn parse(bytes: &[u8], user: u32, interner: &Interner) -> Result<FromProgram, Malformed> {
    let header: piste_message = take(bytes)?.0;
    if header.magic != PISTE_MESSAGE_MAGIC {
        return Err(Malformed(format!(
            "a message starts with {:#010x} instead of the protocol's magic number",
            header.magic
        )));
    }
    if header.total_bytes as usize != bytes.len() {
        return Err(Malformed(format!(
            "a message of {} bytes claims {} bytes",
            bytes.len(),
            header.total_bytes
        )));
    }
    Ok(match header.type_ {
        piste_abi::PISTE_MESSAGE_HELLO => hello(bytes)?,
        piste_abi::PISTE_MESSAGE_EVENTS => {
            let (message, descriptions) = take::<piste_message_events>(bytes)?;
            let block = interner.block(user, descriptions, message.event_count)?;
            FromProgram::Events {
                module: message.module_id,
                block,
                bytes: descriptions.len(),
            }
        }
        piste_abi::PISTE_MESSAGE_MODULE_GONE => FromProgram::ModuleGone {
            module: take::<piste_message_module_gone>(bytes)?.0.module_id,
        },
        piste_abi::PISTE_MESSAGE_REFUSED => {
            let message = take::<piste_message_refused>(bytes)?.0;
            FromProgram::Refused {
                key: message.key,
                reason: refusal(message.reason),
            }
        }
        piste_abi::PISTE_MESSAGE_LATE => FromProgram::Late,
        piste_abi::PISTE_MESSAGE_SYNC => FromProgram::Sync {
            token: take::<piste_message_sync>(bytes)?.0.token,
        },
        piste_abi::PISTE_MESSAGE_SYNCED => FromProgram::Synced {
            token: take::<piste_message_sync>(bytes)?.0.token,
        },
        other => {
            return Err(Malformed(format!(
                "a message has type {other}, which programs do not send"
            )));
        }
    })
}

/// Linux has no longer paths of executables (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;

fn hello(bytes: &[u8]) -> Result<FromProgram, Malformed> {
    let (message, _) = take::<piste_message_hello>(bytes)?;
    if u32::from(message.version_major) != PISTE_ABI_MAJOR {
        let version = format!("{}.{}", message.version_major, message.version_minor);
        return Ok(FromProgram::Foreign { version });
    }
    let struct_bytes = message.struct_bytes as usize;
    let keys_bytes = usize::from(message.attached_count) * size_of::<RingSetKey>();
    let path_bytes = message.path_bytes as usize;
    let stated_bytes = struct_bytes.saturating_add(keys_bytes).saturating_add(path_bytes);
    if struct_bytes < size_of::<piste_message_hello>() || stated_bytes != bytes.len() {
        return Err(Malformed(format!(
            "a HELLO of {} bytes claims {stated_bytes} bytes",
            bytes.len()
        )));
    }
    if u32::from(message.attached_count) > PISTE_CHANNEL_COUNT_MAX || path_bytes > PATH_BYTES_MAX {
        return Err(Malformed(format!(
            "a HELLO has {} attached channels and a path of {path_bytes} bytes; at most {PISTE_CHANNEL_COUNT_MAX} and {PATH_BYTES_MAX} are allowed",
            message.attached_count
        )));
    }
    let (keys, path) = bytes[struct_bytes..].split_at(keys_bytes);
    let name_end = message
        .process_name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(message.process_name.len());
    Ok(FromProgram::Hello(Hello {
        instance_id: message.instance_id,
        vpid: message.vpid,
        attached: keys
            .as_chunks()
            .0
            .iter()
            .map(|&key| RingSetKey::from_ne_bytes(key))
            .collect(),
        name: printable(&message.process_name[..name_end]),
        path: printable(path),
        record_id: (message.record_id != [0; 16]).then_some(message.record_id),
    }))
}

fn refusal(reason: u32) -> String {
    match reason {
        piste_abi::PISTE_REFUSED_TOO_MANY_CHANNELS => {
            format!(
                "it already has {} attached channels, the maximum",
                piste_abi::PISTE_CHANNEL_COUNT_MAX
            )
        }
        piste_abi::PISTE_REFUSED_MAPPING => "it cannot map the memory of the channel".into(),
        piste_abi::PISTE_REFUSED_LAYOUT => {
            "its library does not know the layout of the channel; rebuild it with the library of this release".into()
        }
        piste_abi::PISTE_REFUSED_FILTER => {
            "its library cannot use a filter, or has too many; the events of that filter are not recorded".into()
        }
        other => format!("its library reports reason {other}"),
    }
}

fn take<Message: FromBytes>(bytes: &[u8]) -> Result<(Message, &[u8]), Malformed> {
    Message::read_from_prefix(bytes).map_err(|_| Malformed(format!("a message has only {} bytes", bytes.len())))
}

/// Events that fit into one ENABLE or DISABLE.
pub const ENABLED_EVENT_COUNT_MAX: usize =
    (PISTE_MESSAGE_BYTES_MAX as usize - size_of::<piste_message_enable>()) / size_of::<piste_enabled_event>();

impl ToProgram {
    /// The datagrams of the message: one, or several when it has many events.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        match self {
            ToProgram::Channel { key, replaces } => vec![channel(piste_abi::PISTE_MESSAGE_CHANNEL, *key, *replaces)],
            ToProgram::Bell { index } => vec![
                piste_message_bell {
                    message: header(piste_abi::PISTE_MESSAGE_BELL, size_of::<piste_message_bell>()),
                    bell_index: *index,
                    reserved: 0,
                }
                .as_bytes()
                .to_vec(),
            ],
            ToProgram::ChannelGone { key } => vec![channel(piste_abi::PISTE_MESSAGE_CHANNEL_GONE, *key, None)],
            ToProgram::StateDump { key } => vec![channel(piste_abi::PISTE_MESSAGE_STATEDUMP, *key, None)],
            ToProgram::Enable { key, events } => enable(*key, events),
            ToProgram::Disable { key, events } => {
                let events: Vec<&EnabledEvent> = events.iter().collect();
                list(piste_abi::PISTE_MESSAGE_DISABLE, *key, &events).collect()
            }
            ToProgram::Sync { token } => vec![sync(piste_abi::PISTE_MESSAGE_SYNC, *token)],
            ToProgram::Synced { token } => vec![sync(piste_abi::PISTE_MESSAGE_SYNCED, *token)],
        }
    }
}

fn header(type_: u32, total_bytes: usize) -> piste_message {
    assert!(total_bytes <= PISTE_MESSAGE_BYTES_MAX as usize);
    piste_message {
        magic: PISTE_MESSAGE_MAGIC,
        type_,
        total_bytes: total_bytes as u32,
        reserved: 0,
    }
}

fn channel(type_: u32, key: RingSetKey, replaces: Option<RingSetKey>) -> Vec<u8> {
    let message = header(type_, size_of::<piste_message_channel>());
    piste_message_channel {
        message,
        key,
        replaces: replaces.unwrap_or(0),
    }
    .as_bytes()
    .to_vec()
}

fn sync(type_: u32, token: u64) -> Vec<u8> {
    piste_message_sync {
        message: header(type_, size_of::<piste_message_sync>()),
        token,
    }
    .as_bytes()
    .to_vec()
}

/// Events with the same filter are enabled together.
fn enable(key: RingSetKey, events: &[EnabledEvent]) -> Vec<Vec<u8>> {
    let mut by_filter: BTreeMap<Option<&[u8]>, Vec<&EnabledEvent>> = BTreeMap::new();
    for event in events {
        by_filter.entry(event.filter.as_deref()).or_default().push(event);
    }
    let mut datagrams = Vec::new();
    for (bytes, events) in by_filter {
        for enabled in list(piste_abi::PISTE_MESSAGE_ENABLE, key, &events) {
            datagrams.extend(bytes.map(filter));
            datagrams.push(enabled);
        }
    }
    datagrams
}

fn filter(filter: &[u8]) -> Vec<u8> {
    let message = piste_message_filter {
        message: header(
            piste_abi::PISTE_MESSAGE_FILTER,
            size_of::<piste_message_filter>() + filter.len(),
        ),
        filter_bytes: filter.len() as u32,
        reserved: 0,
    };
    [message.as_bytes(), filter].concat()
}

/// As many messages as the events need.
fn list(type_: u32, key: RingSetKey, events: &[&EnabledEvent]) -> impl Iterator<Item = Vec<u8>> {
    events.chunks(ENABLED_EVENT_COUNT_MAX).map(move |events| {
        let total_bytes = size_of::<piste_message_enable>() + size_of::<piste_enabled_event>() * events.len();
        let message = header(type_, total_bytes);
        let mut bytes = Vec::with_capacity(total_bytes);
        bytes.extend(
            piste_message_enable {
                message,
                key,
                event_count: events.len() as u32,
            }
            .as_bytes(),
        );
        for event in events {
            let event = piste_enabled_event {
                module_id: event.module,
                event_index: event.index,
                event_id: event.class,
                reserved: 0,
            };
            bytes.extend(event.as_bytes());
        }
        bytes
    })
}
