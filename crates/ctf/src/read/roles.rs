// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the two languages say what task a field has in the format: CTF 1.8 by the name of the field, CTF 2 by a role of its class.

use super::schema::{Role, Scope};

struct Task {
    role: Role,
    scope: Scope,
    /// Name of the field in CTF 1.8.
    field: &'static str,
    /// Name of the role in CTF 2.
    role_name: &'static str,
}

/// `default-clock-timestamp` of an event is no role of the schema: a number that updates the clock says it.
pub(crate) const TIME: &str = "default-clock-timestamp";

const fn task(role: Role, scope: Scope, field: &'static str, role_name: &'static str) -> Task {
    Task {
        role,
        scope,
        field,
        role_name,
    }
}

#[rustfmt::skip]
const TASKS: [Task; 11] = [
    task(Role::Magic, Scope::PacketHeader, "magic", "packet-magic-number"),
    task(Role::Uuid, Scope::PacketHeader, "uuid", "metadata-stream-uuid"),
    task(Role::StreamClassId, Scope::PacketHeader, "stream_id", "data-stream-class-id"),
    task(Role::StreamId, Scope::PacketHeader, "stream_instance_id", "data-stream-id"),
    task(Role::BeginTime, Scope::PacketContext, "timestamp_begin", TIME),
    task(Role::EndTime, Scope::PacketContext, "timestamp_end", "packet-end-default-clock-timestamp"),
    task(Role::ContentBits, Scope::PacketContext, "content_size", "packet-content-length"),
    task(Role::TotalBits, Scope::PacketContext, "packet_size", "packet-total-length"),
    task(Role::SequenceNumber, Scope::PacketContext, "packet_seq_num", "packet-sequence-number"),
    task(Role::DiscardedEvents, Scope::PacketContext, "events_discarded", "discarded-event-record-counter-snapshot"),
    task(Role::EventClassId, Scope::EventHeader, "id", "event-record-class-id"),
];

/// The task of a field of CTF 1.8. `depth` is 1 for the fields of the scope's structure itself.
pub(crate) fn of_field(scope: Scope, name: &str, depth: usize) -> Option<Role> {
    let found = TASKS.iter().find(|task| task.scope == scope && task.field == name)?;
    // It may stand in a variant that another id selects.
    (depth == 1 || found.role == Role::EventClassId).then_some(found.role)
}

/// The name that a field of CTF 1.8 needs for a task.
pub(crate) fn field_name(role: Role) -> &'static str {
    let found = TASKS.iter().find(|task| task.role == role);
    found.expect("each role is a task").field
}

/// What CTF 2 calls a task.
pub(crate) fn role_name(role: Role) -> &'static str {
    let found = TASKS.iter().find(|task| task.role == role);
    found.expect("each role is a task").role_name
}

/// The task that CTF 2 calls so; that of a time is [`Role::BeginTime`], also in an event's header.
pub(crate) fn of_role(name: &str) -> Option<Role> {
    let found = TASKS.iter().find(|task| task.role_name == name);
    found.map(|task| task.role)
}

/// Tasks that a scope of CTF 2 has for its fields.
pub(crate) fn allowed(role: Role, scope: Scope) -> bool {
    let is_time_of_event = role == Role::BeginTime && scope == Scope::EventHeader;
    is_time_of_event || TASKS.iter().any(|task| task.role == role && task.scope == scope)
}
