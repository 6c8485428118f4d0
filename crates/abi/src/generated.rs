// SPDX-License-Identifier: MIT OR Apache-2.0
// Made from include/piste/abi/*.h by tests/generated.rs, which says how. Do not edit.

pub const PISTE_ABI_MAJOR: u32 = 4;
pub const PISTE_ABI_MINOR: u32 = 0;
pub const PISTE_CHANNEL_MAGIC: u32 = 1212371792;
pub const PISTE_UNIT_BYTES: u32 = 8;
pub const PISTE_RING_COUNT_MAX: u32 = 4096;
pub const PISTE_SUBBUF_BYTES_MIN: u32 = 4096;
pub const PISTE_SUBBUF_BYTES_MAX: u32 = 67108864;
pub const PISTE_SUBBUF_COUNT_MIN: u32 = 2;
pub const PISTE_SUBBUF_COUNT_MAX: u32 = 4096;
pub const PISTE_RING_PAGE_BYTES: u32 = 4096;
pub const PISTE_BOARD_BYTES: u32 = 16384;
pub const PISTE_CONTEXT_VTID: u32 = 1;
pub const PISTE_CONTEXT_CPU_ID: u32 = 2;
pub const PISTE_CONTEXT_ALL: u32 = 3;
pub const PISTE_MORE_COUNT_MAX: u32 = 40;
pub const PISTE_MORE_BYTES_MAX: u32 = 2048;
pub const PISTE_CONTEXT_NAME_BYTES: u32 = 48;
pub const PISTE_CONTEXT_TEXT_BYTES: u32 = 256;
pub const PISTE_CONTEXT_COMM_BYTES: u32 = 16;
pub const PISTE_POSITION_CPU_SHIFT: u32 = 52;
pub const PISTE_POSITION_CPU_MASK: u32 = 4095;
pub const PISTE_POSITION_UNITS_MASK: u64 = 4503599627370495;
pub const PISTE_WINDOW_CLOSED: u64 = 4294967296;
pub const PISTE_CONSUMED_CLAIMED: u32 = 1;
pub const PISTE_CONSUMED_SHIFT: u32 = 1;
pub const PISTE_RING_DATA_OFFSET_BYTES: u32 = 4096;
pub const PISTE_MARK_TAG_ALWAYS: u32 = 64;
pub const PISTE_MARK_LAP_MASK: u32 = 63;
pub const PISTE_MARK_TAG_MASK: u32 = 127;
pub const PISTE_MARK_HEAD: u32 = 128;
pub const PISTE_ENDED_SEQUENCE_SHIFT: u32 = 24;
pub const PISTE_ENDED_UNITS_MASK: u32 = 16777215;
pub const PISTE_CTF_MAGIC: u32 = 3254525889;
pub const PISTE_RECORD_ID_EXTENDED: u32 = 31;
pub const PISTE_RECORD_ID_BITS: u32 = 5;
pub const PISTE_RECORD_TIME_BITS: u32 = 27;
pub const PISTE_RECORD_COMPACT_BYTES: u32 = 4;
pub const PISTE_RECORD_EXTENDED_BYTES: u32 = 13;
pub const PISTE_NAME_BYTES_MAX: u32 = 127;
pub const PISTE_FIELD_COUNT_MAX: u32 = 40;
pub const PISTE_LABEL_COUNT_MAX: u32 = 512;
pub const PISTE_ARRAY_COUNT_MAX: u32 = 4096;
pub const PISTE_DESCRIPTION_BYTES_MAX: u32 = 49152;
pub const PISTE_BASE_DECIMAL: u32 = 10;
pub const PISTE_BASE_HEX: u32 = 16;
pub const PISTE_FIELD_NOWRITE: u32 = 1;
pub const PISTE_FILTER_INSTRUCTION_COUNT_MAX: u32 = 2048;
pub const PISTE_FILTER_DEPTH_MAX: u32 = 8;
pub const PISTE_FILTER_PLACE_COUNT_MAX: u32 = 41;
pub const PISTE_FILTER_TEXT_BYTES_MAX: u32 = 15000;
pub const PISTE_FILTER_BYTES_MAX: u32 = 65000;
pub const PISTE_FILTER_ACCEPT: u32 = 65535;
pub const PISTE_FILTER_REJECT: u32 = 65534;
pub const PISTE_MESSAGE_MAGIC: u32 = 1397576528;
pub const PISTE_MESSAGE_BYTES_MAX: u32 = 65536;
pub const PISTE_RING_INDEX_CONCURRENCY_ID: u32 = 0;
pub const PISTE_RING_INDEX_CPU: u32 = 1;
pub const PISTE_CHANNEL_COUNT_MAX: u32 = 4096;
pub const PISTE_LOSS_DISCARD: piste_loss_mode = 0;
pub const PISTE_LOSS_OVERWRITE: piste_loss_mode = 1;
pub const PISTE_LOSS_BLOCK: piste_loss_mode = 2;
pub type piste_loss_mode = ::core::ffi::c_uint;
pub const PISTE_CLOCK_MONOTONIC: piste_clock = 0;
pub const PISTE_CLOCK_TSC: piste_clock = 1;
pub type piste_clock = ::core::ffi::c_uint;
pub const PISTE_CONTEXT_VPID: piste_context_kind = 1;
pub const PISTE_CONTEXT_PROCNAME: piste_context_kind = 2;
pub const PISTE_CONTEXT_PTHREAD_ID: piste_context_kind = 3;
pub const PISTE_CONTEXT_IP: piste_context_kind = 4;
pub const PISTE_CONTEXT_NICE: piste_context_kind = 5;
pub const PISTE_CONTEXT_PRIO: piste_context_kind = 6;
pub const PISTE_CONTEXT_VUID: piste_context_kind = 7;
pub const PISTE_CONTEXT_VEUID: piste_context_kind = 8;
pub const PISTE_CONTEXT_VSUID: piste_context_kind = 9;
pub const PISTE_CONTEXT_VGID: piste_context_kind = 10;
pub const PISTE_CONTEXT_VEGID: piste_context_kind = 11;
pub const PISTE_CONTEXT_VSGID: piste_context_kind = 12;
pub const PISTE_CONTEXT_CGROUP_NS: piste_context_kind = 13;
pub const PISTE_CONTEXT_IPC_NS: piste_context_kind = 14;
pub const PISTE_CONTEXT_MNT_NS: piste_context_kind = 15;
pub const PISTE_CONTEXT_NET_NS: piste_context_kind = 16;
pub const PISTE_CONTEXT_PID_NS: piste_context_kind = 17;
pub const PISTE_CONTEXT_TIME_NS: piste_context_kind = 18;
pub const PISTE_CONTEXT_USER_NS: piste_context_kind = 19;
pub const PISTE_CONTEXT_UTS_NS: piste_context_kind = 20;
pub const PISTE_CONTEXT_CGROUP_PATH: piste_context_kind = 21;
pub const PISTE_CONTEXT_USAGE: piste_context_kind = 22;
pub const PISTE_CONTEXT_COUNTER: piste_context_kind = 23;
pub const PISTE_CONTEXT_APPLICATION: piste_context_kind = 24;
pub const PISTE_CONTEXT_KIND_LAST: piste_context_kind = 24;
pub type piste_context_kind = ::core::ffi::c_uint;
pub const PISTE_USAGE_TASK_CLOCK: piste_usage = 0;
pub const PISTE_USAGE_PAGE_FAULTS: piste_usage = 1;
pub const PISTE_USAGE_MINOR_FAULTS: piste_usage = 2;
pub const PISTE_USAGE_MAJOR_FAULTS: piste_usage = 3;
pub const PISTE_USAGE_CONTEXT_SWITCHES: piste_usage = 4;
pub const PISTE_USAGE_LAST: piste_usage = 4;
pub type piste_usage = ::core::ffi::c_uint;
pub const PISTE_DYNAMIC_NONE: piste_dynamic = 0;
pub const PISTE_DYNAMIC_INT64: piste_dynamic = 1;
pub const PISTE_DYNAMIC_UINT64: piste_dynamic = 2;
pub const PISTE_DYNAMIC_FLOAT64: piste_dynamic = 3;
pub const PISTE_DYNAMIC_STRING: piste_dynamic = 4;
pub type piste_dynamic = ::core::ffi::c_uint;
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_context {
    pub kind: u32,
    pub type_: u32,
    pub config: u64,
    pub name: [u8; 48usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of piste_context"][::core::mem::size_of::<piste_context>() - 64usize];
    ["Alignment of piste_context"][::core::mem::align_of::<piste_context>() - 8usize];
    [
        "Offset of field: piste_context::kind",
    ][::core::mem::offset_of!(piste_context, kind) - 0usize];
    [
        "Offset of field: piste_context::type_",
    ][::core::mem::offset_of!(piste_context, type_) - 4usize];
    [
        "Offset of field: piste_context::config",
    ][::core::mem::offset_of!(piste_context, config) - 8usize];
    [
        "Offset of field: piste_context::name",
    ][::core::mem::offset_of!(piste_context, name) - 16usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_channel_header {
    pub magic: u32,
    pub version_major: u16,
    pub version_minor: u16,
    pub struct_bytes: u32,
    pub key: u32,
    pub loss_mode: u32,
    pub clock: u32,
    pub contexts: u32,
    pub ring_count: u32,
    pub subbuf_bytes: u32,
    pub subbuf_count: u32,
    pub marks_offset_bytes: u64,
    pub ring_offset_bytes: u64,
    pub ring_stride_bytes: u64,
    pub total_bytes: u64,
    pub block_timeout_us: u32,
    pub more_count: u32,
    pub reserved_0: [u32; 12usize],
    pub active_key: u32,
    pub reserved_1: [u32; 31usize],
    pub touched: [u64; 64usize],
    pub more: [piste_context; 40usize],
    pub reserved_2: [u64; 96usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_channel_header",
    ][::core::mem::size_of::<piste_channel_header>() - 4096usize];
    [
        "Alignment of piste_channel_header",
    ][::core::mem::align_of::<piste_channel_header>() - 8usize];
    [
        "Offset of field: piste_channel_header::magic",
    ][::core::mem::offset_of!(piste_channel_header, magic) - 0usize];
    [
        "Offset of field: piste_channel_header::version_major",
    ][::core::mem::offset_of!(piste_channel_header, version_major) - 4usize];
    [
        "Offset of field: piste_channel_header::version_minor",
    ][::core::mem::offset_of!(piste_channel_header, version_minor) - 6usize];
    [
        "Offset of field: piste_channel_header::struct_bytes",
    ][::core::mem::offset_of!(piste_channel_header, struct_bytes) - 8usize];
    [
        "Offset of field: piste_channel_header::key",
    ][::core::mem::offset_of!(piste_channel_header, key) - 12usize];
    [
        "Offset of field: piste_channel_header::loss_mode",
    ][::core::mem::offset_of!(piste_channel_header, loss_mode) - 16usize];
    [
        "Offset of field: piste_channel_header::clock",
    ][::core::mem::offset_of!(piste_channel_header, clock) - 20usize];
    [
        "Offset of field: piste_channel_header::contexts",
    ][::core::mem::offset_of!(piste_channel_header, contexts) - 24usize];
    [
        "Offset of field: piste_channel_header::ring_count",
    ][::core::mem::offset_of!(piste_channel_header, ring_count) - 28usize];
    [
        "Offset of field: piste_channel_header::subbuf_bytes",
    ][::core::mem::offset_of!(piste_channel_header, subbuf_bytes) - 32usize];
    [
        "Offset of field: piste_channel_header::subbuf_count",
    ][::core::mem::offset_of!(piste_channel_header, subbuf_count) - 36usize];
    [
        "Offset of field: piste_channel_header::marks_offset_bytes",
    ][::core::mem::offset_of!(piste_channel_header, marks_offset_bytes) - 40usize];
    [
        "Offset of field: piste_channel_header::ring_offset_bytes",
    ][::core::mem::offset_of!(piste_channel_header, ring_offset_bytes) - 48usize];
    [
        "Offset of field: piste_channel_header::ring_stride_bytes",
    ][::core::mem::offset_of!(piste_channel_header, ring_stride_bytes) - 56usize];
    [
        "Offset of field: piste_channel_header::total_bytes",
    ][::core::mem::offset_of!(piste_channel_header, total_bytes) - 64usize];
    [
        "Offset of field: piste_channel_header::block_timeout_us",
    ][::core::mem::offset_of!(piste_channel_header, block_timeout_us) - 72usize];
    [
        "Offset of field: piste_channel_header::more_count",
    ][::core::mem::offset_of!(piste_channel_header, more_count) - 76usize];
    [
        "Offset of field: piste_channel_header::reserved_0",
    ][::core::mem::offset_of!(piste_channel_header, reserved_0) - 80usize];
    [
        "Offset of field: piste_channel_header::active_key",
    ][::core::mem::offset_of!(piste_channel_header, active_key) - 128usize];
    [
        "Offset of field: piste_channel_header::reserved_1",
    ][::core::mem::offset_of!(piste_channel_header, reserved_1) - 132usize];
    [
        "Offset of field: piste_channel_header::touched",
    ][::core::mem::offset_of!(piste_channel_header, touched) - 256usize];
    [
        "Offset of field: piste_channel_header::more",
    ][::core::mem::offset_of!(piste_channel_header, more) - 768usize];
    [
        "Offset of field: piste_channel_header::reserved_2",
    ][::core::mem::offset_of!(piste_channel_header, reserved_2) - 3328usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_ring_header {
    pub position: u64,
    pub window: u64,
    pub reserved_0: [u64; 14usize],
    pub consumed: u64,
    pub space_futex: u32,
    pub waiters: u32,
    pub reserved_1: [u64; 14usize],
    pub discarded_full: u64,
    pub discarded_too_large: u64,
    pub overwritten_records: u64,
    pub overwritten_packets: u64,
    pub reserved_2: [u64; 12usize],
    pub reserved_3: [u64; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_ring_header",
    ][::core::mem::size_of::<piste_ring_header>() - 512usize];
    [
        "Alignment of piste_ring_header",
    ][::core::mem::align_of::<piste_ring_header>() - 8usize];
    [
        "Offset of field: piste_ring_header::position",
    ][::core::mem::offset_of!(piste_ring_header, position) - 0usize];
    [
        "Offset of field: piste_ring_header::window",
    ][::core::mem::offset_of!(piste_ring_header, window) - 8usize];
    [
        "Offset of field: piste_ring_header::reserved_0",
    ][::core::mem::offset_of!(piste_ring_header, reserved_0) - 16usize];
    [
        "Offset of field: piste_ring_header::consumed",
    ][::core::mem::offset_of!(piste_ring_header, consumed) - 128usize];
    [
        "Offset of field: piste_ring_header::space_futex",
    ][::core::mem::offset_of!(piste_ring_header, space_futex) - 136usize];
    [
        "Offset of field: piste_ring_header::waiters",
    ][::core::mem::offset_of!(piste_ring_header, waiters) - 140usize];
    [
        "Offset of field: piste_ring_header::reserved_1",
    ][::core::mem::offset_of!(piste_ring_header, reserved_1) - 144usize];
    [
        "Offset of field: piste_ring_header::discarded_full",
    ][::core::mem::offset_of!(piste_ring_header, discarded_full) - 256usize];
    [
        "Offset of field: piste_ring_header::discarded_too_large",
    ][::core::mem::offset_of!(piste_ring_header, discarded_too_large) - 264usize];
    [
        "Offset of field: piste_ring_header::overwritten_records",
    ][::core::mem::offset_of!(piste_ring_header, overwritten_records) - 272usize];
    [
        "Offset of field: piste_ring_header::overwritten_packets",
    ][::core::mem::offset_of!(piste_ring_header, overwritten_packets) - 280usize];
    [
        "Offset of field: piste_ring_header::reserved_2",
    ][::core::mem::offset_of!(piste_ring_header, reserved_2) - 288usize];
    [
        "Offset of field: piste_ring_header::reserved_3",
    ][::core::mem::offset_of!(piste_ring_header, reserved_3) - 384usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_subbuf {
    pub ended: u64,
    pub discarded: u64,
    pub reserved: [u64; 14usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of piste_subbuf"][::core::mem::size_of::<piste_subbuf>() - 128usize];
    ["Alignment of piste_subbuf"][::core::mem::align_of::<piste_subbuf>() - 8usize];
    [
        "Offset of field: piste_subbuf::ended",
    ][::core::mem::offset_of!(piste_subbuf, ended) - 0usize];
    [
        "Offset of field: piste_subbuf::discarded",
    ][::core::mem::offset_of!(piste_subbuf, discarded) - 8usize];
    [
        "Offset of field: piste_subbuf::reserved",
    ][::core::mem::offset_of!(piste_subbuf, reserved) - 16usize];
};
#[repr(C, packed(4))]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_packet_header {
    pub ctf_magic: u32,
    pub trace_uuid: [u8; 16usize],
    pub stream_id: u32,
    pub stream_instance_id: u64,
    pub timestamp_begin: u64,
    pub timestamp_end: u64,
    pub content_bits: u64,
    pub packet_bits: u64,
    pub packet_seq_num: u64,
    pub events_discarded: u64,
    pub ring_index: u32,
    pub vpid: i32,
    pub pid: i32,
    pub uid: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_packet_header",
    ][::core::mem::size_of::<piste_packet_header>() - 96usize];
    [
        "Alignment of piste_packet_header",
    ][::core::mem::align_of::<piste_packet_header>() - 4usize];
    [
        "Offset of field: piste_packet_header::ctf_magic",
    ][::core::mem::offset_of!(piste_packet_header, ctf_magic) - 0usize];
    [
        "Offset of field: piste_packet_header::trace_uuid",
    ][::core::mem::offset_of!(piste_packet_header, trace_uuid) - 4usize];
    [
        "Offset of field: piste_packet_header::stream_id",
    ][::core::mem::offset_of!(piste_packet_header, stream_id) - 20usize];
    [
        "Offset of field: piste_packet_header::stream_instance_id",
    ][::core::mem::offset_of!(piste_packet_header, stream_instance_id) - 24usize];
    [
        "Offset of field: piste_packet_header::timestamp_begin",
    ][::core::mem::offset_of!(piste_packet_header, timestamp_begin) - 32usize];
    [
        "Offset of field: piste_packet_header::timestamp_end",
    ][::core::mem::offset_of!(piste_packet_header, timestamp_end) - 40usize];
    [
        "Offset of field: piste_packet_header::content_bits",
    ][::core::mem::offset_of!(piste_packet_header, content_bits) - 48usize];
    [
        "Offset of field: piste_packet_header::packet_bits",
    ][::core::mem::offset_of!(piste_packet_header, packet_bits) - 56usize];
    [
        "Offset of field: piste_packet_header::packet_seq_num",
    ][::core::mem::offset_of!(piste_packet_header, packet_seq_num) - 64usize];
    [
        "Offset of field: piste_packet_header::events_discarded",
    ][::core::mem::offset_of!(piste_packet_header, events_discarded) - 72usize];
    [
        "Offset of field: piste_packet_header::ring_index",
    ][::core::mem::offset_of!(piste_packet_header, ring_index) - 80usize];
    [
        "Offset of field: piste_packet_header::vpid",
    ][::core::mem::offset_of!(piste_packet_header, vpid) - 84usize];
    [
        "Offset of field: piste_packet_header::pid",
    ][::core::mem::offset_of!(piste_packet_header, pid) - 88usize];
    [
        "Offset of field: piste_packet_header::uid",
    ][::core::mem::offset_of!(piste_packet_header, uid) - 92usize];
};
pub const PISTE_LEVEL_EMERG: piste_level = 0;
pub const PISTE_LEVEL_ALERT: piste_level = 1;
pub const PISTE_LEVEL_CRIT: piste_level = 2;
pub const PISTE_LEVEL_ERR: piste_level = 3;
pub const PISTE_LEVEL_WARNING: piste_level = 4;
pub const PISTE_LEVEL_NOTICE: piste_level = 5;
pub const PISTE_LEVEL_INFO: piste_level = 6;
pub const PISTE_LEVEL_DEBUG_SYSTEM: piste_level = 7;
pub const PISTE_LEVEL_DEBUG_PROGRAM: piste_level = 8;
pub const PISTE_LEVEL_DEBUG_PROCESS: piste_level = 9;
pub const PISTE_LEVEL_DEBUG_MODULE: piste_level = 10;
pub const PISTE_LEVEL_DEBUG_UNIT: piste_level = 11;
pub const PISTE_LEVEL_DEBUG_FUNCTION: piste_level = 12;
pub const PISTE_LEVEL_DEBUG_LINE: piste_level = 13;
pub const PISTE_LEVEL_DEBUG: piste_level = 14;
pub type piste_level = ::core::ffi::c_uint;
pub const PISTE_FIELD_SCALAR: piste_field_kind = 1;
pub const PISTE_FIELD_ENUM: piste_field_kind = 2;
pub const PISTE_FIELD_ARRAY: piste_field_kind = 3;
pub const PISTE_FIELD_SEQUENCE: piste_field_kind = 4;
pub const PISTE_FIELD_TEXT: piste_field_kind = 5;
pub const PISTE_FIELD_STRING: piste_field_kind = 6;
pub type piste_field_kind = ::core::ffi::c_uint;
pub const PISTE_ELEMENT_NONE: piste_element = 0;
pub const PISTE_ELEMENT_INT8: piste_element = 1;
pub const PISTE_ELEMENT_INT16: piste_element = 2;
pub const PISTE_ELEMENT_INT32: piste_element = 3;
pub const PISTE_ELEMENT_INT64: piste_element = 4;
pub const PISTE_ELEMENT_UINT8: piste_element = 5;
pub const PISTE_ELEMENT_UINT16: piste_element = 6;
pub const PISTE_ELEMENT_UINT32: piste_element = 7;
pub const PISTE_ELEMENT_UINT64: piste_element = 8;
pub const PISTE_ELEMENT_FLOAT32: piste_element = 9;
pub const PISTE_ELEMENT_FLOAT64: piste_element = 10;
pub type piste_element = ::core::ffi::c_uint;
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_event_description {
    pub total_bytes: u32,
    pub event_index: u32,
    pub level: u8,
    pub reserved: u8,
    pub field_count: u16,
    pub provider_bytes: u16,
    pub name_bytes: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_event_description",
    ][::core::mem::size_of::<piste_event_description>() - 16usize];
    [
        "Alignment of piste_event_description",
    ][::core::mem::align_of::<piste_event_description>() - 4usize];
    [
        "Offset of field: piste_event_description::total_bytes",
    ][::core::mem::offset_of!(piste_event_description, total_bytes) - 0usize];
    [
        "Offset of field: piste_event_description::event_index",
    ][::core::mem::offset_of!(piste_event_description, event_index) - 4usize];
    [
        "Offset of field: piste_event_description::level",
    ][::core::mem::offset_of!(piste_event_description, level) - 8usize];
    [
        "Offset of field: piste_event_description::reserved",
    ][::core::mem::offset_of!(piste_event_description, reserved) - 9usize];
    [
        "Offset of field: piste_event_description::field_count",
    ][::core::mem::offset_of!(piste_event_description, field_count) - 10usize];
    [
        "Offset of field: piste_event_description::provider_bytes",
    ][::core::mem::offset_of!(piste_event_description, provider_bytes) - 12usize];
    [
        "Offset of field: piste_event_description::name_bytes",
    ][::core::mem::offset_of!(piste_event_description, name_bytes) - 14usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_field_description {
    pub total_bytes: u32,
    pub kind: u8,
    pub element: u8,
    pub base: u8,
    pub flags: u8,
    pub name_bytes: u16,
    pub label_count: u16,
    pub count: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_field_description",
    ][::core::mem::size_of::<piste_field_description>() - 16usize];
    [
        "Alignment of piste_field_description",
    ][::core::mem::align_of::<piste_field_description>() - 4usize];
    [
        "Offset of field: piste_field_description::total_bytes",
    ][::core::mem::offset_of!(piste_field_description, total_bytes) - 0usize];
    [
        "Offset of field: piste_field_description::kind",
    ][::core::mem::offset_of!(piste_field_description, kind) - 4usize];
    [
        "Offset of field: piste_field_description::element",
    ][::core::mem::offset_of!(piste_field_description, element) - 5usize];
    [
        "Offset of field: piste_field_description::base",
    ][::core::mem::offset_of!(piste_field_description, base) - 6usize];
    [
        "Offset of field: piste_field_description::flags",
    ][::core::mem::offset_of!(piste_field_description, flags) - 7usize];
    [
        "Offset of field: piste_field_description::name_bytes",
    ][::core::mem::offset_of!(piste_field_description, name_bytes) - 8usize];
    [
        "Offset of field: piste_field_description::label_count",
    ][::core::mem::offset_of!(piste_field_description, label_count) - 10usize];
    [
        "Offset of field: piste_field_description::count",
    ][::core::mem::offset_of!(piste_field_description, count) - 12usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_label_description {
    pub total_bytes: u32,
    pub label_bytes: u16,
    pub reserved: u16,
    pub value: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_label_description",
    ][::core::mem::size_of::<piste_label_description>() - 16usize];
    [
        "Alignment of piste_label_description",
    ][::core::mem::align_of::<piste_label_description>() - 8usize];
    [
        "Offset of field: piste_label_description::total_bytes",
    ][::core::mem::offset_of!(piste_label_description, total_bytes) - 0usize];
    [
        "Offset of field: piste_label_description::label_bytes",
    ][::core::mem::offset_of!(piste_label_description, label_bytes) - 4usize];
    [
        "Offset of field: piste_label_description::reserved",
    ][::core::mem::offset_of!(piste_label_description, reserved) - 6usize];
    [
        "Offset of field: piste_label_description::value",
    ][::core::mem::offset_of!(piste_label_description, value) - 8usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_filter {
    pub instruction_count: u32,
    pub text_bytes: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of piste_filter"][::core::mem::size_of::<piste_filter>() - 8usize];
    ["Alignment of piste_filter"][::core::mem::align_of::<piste_filter>() - 4usize];
    [
        "Offset of field: piste_filter::instruction_count",
    ][::core::mem::offset_of!(piste_filter, instruction_count) - 0usize];
    [
        "Offset of field: piste_filter::text_bytes",
    ][::core::mem::offset_of!(piste_filter, text_bytes) - 4usize];
};
pub const PISTE_FILTER_PLACE: piste_opcode = 1;
pub const PISTE_FILTER_FIELD: piste_opcode = 2;
pub const PISTE_FILTER_ELEMENT: piste_opcode = 3;
pub const PISTE_FILTER_TEXT: piste_opcode = 4;
pub const PISTE_FILTER_CONTEXT: piste_opcode = 5;
pub const PISTE_FILTER_SIGNED: piste_opcode = 6;
pub const PISTE_FILTER_UNSIGNED: piste_opcode = 7;
pub const PISTE_FILTER_FLOAT: piste_opcode = 8;
pub const PISTE_FILTER_CONSTANT: piste_opcode = 9;
pub const PISTE_FILTER_BITS: piste_opcode = 10;
pub const PISTE_FILTER_COMPARE: piste_opcode = 16;
pub const PISTE_FILTER_COMPARE_FIELD: piste_opcode = 17;
pub const PISTE_FILTER_LIKE: piste_opcode = 18;
pub const PISTE_FILTER_UNLIKE: piste_opcode = 19;
pub const PISTE_FILTER_EXISTS: piste_opcode = 20;
pub type piste_opcode = ::core::ffi::c_uint;
pub const PISTE_FILTER_STRING: piste_filter_text = 16;
pub const PISTE_FILTER_COUNTED: piste_filter_text = 17;
pub type piste_filter_text = ::core::ffi::c_uint;
pub const PISTE_FILTER_VTID: piste_filter_context = 1;
pub const PISTE_FILTER_CPU_ID: piste_filter_context = 2;
pub const PISTE_FILTER_COMM: piste_filter_context = 3;
pub const PISTE_FILTER_OTHER: piste_filter_context = 4;
pub type piste_filter_context = ::core::ffi::c_uint;
pub const PISTE_BITS_AND: piste_bits = 0;
pub const PISTE_BITS_OR: piste_bits = 1;
pub const PISTE_BITS_XOR: piste_bits = 2;
pub const PISTE_BITS_SHIFT_LEFT: piste_bits = 3;
pub const PISTE_BITS_SHIFT_RIGHT: piste_bits = 4;
pub type piste_bits = ::core::ffi::c_uint;
pub const PISTE_COMPARE_LESS: piste_comparison = 1;
pub const PISTE_COMPARE_EQUAL: piste_comparison = 2;
pub const PISTE_COMPARE_GREATER: piste_comparison = 4;
pub const PISTE_COMPARE_LESS_OR_EQUAL: piste_comparison = 3;
pub const PISTE_COMPARE_NOT_EQUAL: piste_comparison = 5;
pub const PISTE_COMPARE_GREATER_OR_EQUAL: piste_comparison = 6;
pub const PISTE_COMPARE_BITS: piste_comparison = 8;
pub type piste_comparison = ::core::ffi::c_uint;
pub const PISTE_PATTERN_BYTE: piste_pattern = 1;
pub const PISTE_PATTERN_ANY: piste_pattern = 2;
pub const PISTE_PATTERN_IN: piste_pattern = 3;
pub const PISTE_PATTERN_NOT_IN: piste_pattern = 4;
pub const PISTE_PATTERN_STAR: piste_pattern = 5;
pub type piste_pattern = ::core::ffi::c_uint;
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_instruction {
    pub opcode: u8,
    pub kind: u8,
    pub comparison: u8,
    pub place: u8,
    pub if_true: u16,
    pub if_false: u16,
    pub offset: u32,
    pub end: u32,
    pub operand: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of piste_instruction"][::core::mem::size_of::<piste_instruction>() - 24usize];
    [
        "Alignment of piste_instruction",
    ][::core::mem::align_of::<piste_instruction>() - 8usize];
    [
        "Offset of field: piste_instruction::opcode",
    ][::core::mem::offset_of!(piste_instruction, opcode) - 0usize];
    [
        "Offset of field: piste_instruction::kind",
    ][::core::mem::offset_of!(piste_instruction, kind) - 1usize];
    [
        "Offset of field: piste_instruction::comparison",
    ][::core::mem::offset_of!(piste_instruction, comparison) - 2usize];
    [
        "Offset of field: piste_instruction::place",
    ][::core::mem::offset_of!(piste_instruction, place) - 3usize];
    [
        "Offset of field: piste_instruction::if_true",
    ][::core::mem::offset_of!(piste_instruction, if_true) - 4usize];
    [
        "Offset of field: piste_instruction::if_false",
    ][::core::mem::offset_of!(piste_instruction, if_false) - 6usize];
    [
        "Offset of field: piste_instruction::offset",
    ][::core::mem::offset_of!(piste_instruction, offset) - 8usize];
    [
        "Offset of field: piste_instruction::end",
    ][::core::mem::offset_of!(piste_instruction, end) - 12usize];
    [
        "Offset of field: piste_instruction::operand",
    ][::core::mem::offset_of!(piste_instruction, operand) - 16usize];
};
pub const PISTE_MESSAGE_HELLO: piste_message_type = 1;
pub const PISTE_MESSAGE_EVENTS: piste_message_type = 2;
pub const PISTE_MESSAGE_MODULE_GONE: piste_message_type = 3;
pub const PISTE_MESSAGE_REFUSED: piste_message_type = 4;
pub const PISTE_MESSAGE_LATE: piste_message_type = 5;
pub const PISTE_MESSAGE_CHANNEL: piste_message_type = 16;
pub const PISTE_MESSAGE_CHANNEL_GONE: piste_message_type = 17;
pub const PISTE_MESSAGE_ENABLE: piste_message_type = 18;
pub const PISTE_MESSAGE_DISABLE: piste_message_type = 19;
pub const PISTE_MESSAGE_STATEDUMP: piste_message_type = 20;
pub const PISTE_MESSAGE_BELL: piste_message_type = 21;
pub const PISTE_MESSAGE_FILTER: piste_message_type = 22;
pub const PISTE_MESSAGE_SYNC: piste_message_type = 32;
pub const PISTE_MESSAGE_SYNCED: piste_message_type = 33;
pub type piste_message_type = ::core::ffi::c_uint;
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message {
    pub magic: u32,
    pub type_: u32,
    pub total_bytes: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of piste_message"][::core::mem::size_of::<piste_message>() - 16usize];
    ["Alignment of piste_message"][::core::mem::align_of::<piste_message>() - 4usize];
    [
        "Offset of field: piste_message::magic",
    ][::core::mem::offset_of!(piste_message, magic) - 0usize];
    [
        "Offset of field: piste_message::type_",
    ][::core::mem::offset_of!(piste_message, type_) - 4usize];
    [
        "Offset of field: piste_message::total_bytes",
    ][::core::mem::offset_of!(piste_message, total_bytes) - 8usize];
    [
        "Offset of field: piste_message::reserved",
    ][::core::mem::offset_of!(piste_message, reserved) - 12usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_hello {
    pub message: piste_message,
    pub version_major: u16,
    pub version_minor: u16,
    pub struct_bytes: u32,
    pub instance_id: u64,
    pub vpid: i32,
    pub vppid: i32,
    pub pointer_bits: u8,
    pub ring_index: u8,
    pub attached_count: u16,
    pub path_bytes: u32,
    pub process_name: [u8; 16usize],
    pub record_id: [u8; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_hello",
    ][::core::mem::size_of::<piste_message_hello>() - 80usize];
    [
        "Alignment of piste_message_hello",
    ][::core::mem::align_of::<piste_message_hello>() - 8usize];
    [
        "Offset of field: piste_message_hello::message",
    ][::core::mem::offset_of!(piste_message_hello, message) - 0usize];
    [
        "Offset of field: piste_message_hello::version_major",
    ][::core::mem::offset_of!(piste_message_hello, version_major) - 16usize];
    [
        "Offset of field: piste_message_hello::version_minor",
    ][::core::mem::offset_of!(piste_message_hello, version_minor) - 18usize];
    [
        "Offset of field: piste_message_hello::struct_bytes",
    ][::core::mem::offset_of!(piste_message_hello, struct_bytes) - 20usize];
    [
        "Offset of field: piste_message_hello::instance_id",
    ][::core::mem::offset_of!(piste_message_hello, instance_id) - 24usize];
    [
        "Offset of field: piste_message_hello::vpid",
    ][::core::mem::offset_of!(piste_message_hello, vpid) - 32usize];
    [
        "Offset of field: piste_message_hello::vppid",
    ][::core::mem::offset_of!(piste_message_hello, vppid) - 36usize];
    [
        "Offset of field: piste_message_hello::pointer_bits",
    ][::core::mem::offset_of!(piste_message_hello, pointer_bits) - 40usize];
    [
        "Offset of field: piste_message_hello::ring_index",
    ][::core::mem::offset_of!(piste_message_hello, ring_index) - 41usize];
    [
        "Offset of field: piste_message_hello::attached_count",
    ][::core::mem::offset_of!(piste_message_hello, attached_count) - 42usize];
    [
        "Offset of field: piste_message_hello::path_bytes",
    ][::core::mem::offset_of!(piste_message_hello, path_bytes) - 44usize];
    [
        "Offset of field: piste_message_hello::process_name",
    ][::core::mem::offset_of!(piste_message_hello, process_name) - 48usize];
    [
        "Offset of field: piste_message_hello::record_id",
    ][::core::mem::offset_of!(piste_message_hello, record_id) - 64usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_events {
    pub message: piste_message,
    pub module_id: u32,
    pub event_count: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_events",
    ][::core::mem::size_of::<piste_message_events>() - 24usize];
    [
        "Alignment of piste_message_events",
    ][::core::mem::align_of::<piste_message_events>() - 4usize];
    [
        "Offset of field: piste_message_events::message",
    ][::core::mem::offset_of!(piste_message_events, message) - 0usize];
    [
        "Offset of field: piste_message_events::module_id",
    ][::core::mem::offset_of!(piste_message_events, module_id) - 16usize];
    [
        "Offset of field: piste_message_events::event_count",
    ][::core::mem::offset_of!(piste_message_events, event_count) - 20usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_module_gone {
    pub message: piste_message,
    pub module_id: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_module_gone",
    ][::core::mem::size_of::<piste_message_module_gone>() - 24usize];
    [
        "Alignment of piste_message_module_gone",
    ][::core::mem::align_of::<piste_message_module_gone>() - 4usize];
    [
        "Offset of field: piste_message_module_gone::message",
    ][::core::mem::offset_of!(piste_message_module_gone, message) - 0usize];
    [
        "Offset of field: piste_message_module_gone::module_id",
    ][::core::mem::offset_of!(piste_message_module_gone, module_id) - 16usize];
    [
        "Offset of field: piste_message_module_gone::reserved",
    ][::core::mem::offset_of!(piste_message_module_gone, reserved) - 20usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_refused {
    pub message: piste_message,
    pub key: u32,
    pub reason: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_refused",
    ][::core::mem::size_of::<piste_message_refused>() - 24usize];
    [
        "Alignment of piste_message_refused",
    ][::core::mem::align_of::<piste_message_refused>() - 4usize];
    [
        "Offset of field: piste_message_refused::message",
    ][::core::mem::offset_of!(piste_message_refused, message) - 0usize];
    [
        "Offset of field: piste_message_refused::key",
    ][::core::mem::offset_of!(piste_message_refused, key) - 16usize];
    [
        "Offset of field: piste_message_refused::reason",
    ][::core::mem::offset_of!(piste_message_refused, reason) - 20usize];
};
pub const PISTE_REFUSED_TOO_MANY_CHANNELS: piste_refusal = 1;
pub const PISTE_REFUSED_MAPPING: piste_refusal = 2;
pub const PISTE_REFUSED_LAYOUT: piste_refusal = 3;
pub const PISTE_REFUSED_FILTER: piste_refusal = 4;
pub type piste_refusal = ::core::ffi::c_uint;
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_channel {
    pub message: piste_message,
    pub key: u32,
    pub replaces: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_channel",
    ][::core::mem::size_of::<piste_message_channel>() - 24usize];
    [
        "Alignment of piste_message_channel",
    ][::core::mem::align_of::<piste_message_channel>() - 4usize];
    [
        "Offset of field: piste_message_channel::message",
    ][::core::mem::offset_of!(piste_message_channel, message) - 0usize];
    [
        "Offset of field: piste_message_channel::key",
    ][::core::mem::offset_of!(piste_message_channel, key) - 16usize];
    [
        "Offset of field: piste_message_channel::replaces",
    ][::core::mem::offset_of!(piste_message_channel, replaces) - 20usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_bell {
    pub message: piste_message,
    pub bell_index: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_bell",
    ][::core::mem::size_of::<piste_message_bell>() - 24usize];
    [
        "Alignment of piste_message_bell",
    ][::core::mem::align_of::<piste_message_bell>() - 4usize];
    [
        "Offset of field: piste_message_bell::message",
    ][::core::mem::offset_of!(piste_message_bell, message) - 0usize];
    [
        "Offset of field: piste_message_bell::bell_index",
    ][::core::mem::offset_of!(piste_message_bell, bell_index) - 16usize];
    [
        "Offset of field: piste_message_bell::reserved",
    ][::core::mem::offset_of!(piste_message_bell, reserved) - 20usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_filter {
    pub message: piste_message,
    pub filter_bytes: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_filter",
    ][::core::mem::size_of::<piste_message_filter>() - 24usize];
    [
        "Alignment of piste_message_filter",
    ][::core::mem::align_of::<piste_message_filter>() - 4usize];
    [
        "Offset of field: piste_message_filter::message",
    ][::core::mem::offset_of!(piste_message_filter, message) - 0usize];
    [
        "Offset of field: piste_message_filter::filter_bytes",
    ][::core::mem::offset_of!(piste_message_filter, filter_bytes) - 16usize];
    [
        "Offset of field: piste_message_filter::reserved",
    ][::core::mem::offset_of!(piste_message_filter, reserved) - 20usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_enabled_event {
    pub module_id: u32,
    pub event_index: u32,
    pub event_id: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_enabled_event",
    ][::core::mem::size_of::<piste_enabled_event>() - 16usize];
    [
        "Alignment of piste_enabled_event",
    ][::core::mem::align_of::<piste_enabled_event>() - 4usize];
    [
        "Offset of field: piste_enabled_event::module_id",
    ][::core::mem::offset_of!(piste_enabled_event, module_id) - 0usize];
    [
        "Offset of field: piste_enabled_event::event_index",
    ][::core::mem::offset_of!(piste_enabled_event, event_index) - 4usize];
    [
        "Offset of field: piste_enabled_event::event_id",
    ][::core::mem::offset_of!(piste_enabled_event, event_id) - 8usize];
    [
        "Offset of field: piste_enabled_event::reserved",
    ][::core::mem::offset_of!(piste_enabled_event, reserved) - 12usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_enable {
    pub message: piste_message,
    pub key: u32,
    pub event_count: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_enable",
    ][::core::mem::size_of::<piste_message_enable>() - 24usize];
    [
        "Alignment of piste_message_enable",
    ][::core::mem::align_of::<piste_message_enable>() - 4usize];
    [
        "Offset of field: piste_message_enable::message",
    ][::core::mem::offset_of!(piste_message_enable, message) - 0usize];
    [
        "Offset of field: piste_message_enable::key",
    ][::core::mem::offset_of!(piste_message_enable, key) - 16usize];
    [
        "Offset of field: piste_message_enable::event_count",
    ][::core::mem::offset_of!(piste_message_enable, event_count) - 20usize];
};
#[repr(C)]
#[derive(
    Debug,
    Copy,
    Clone,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout
)]
pub struct piste_message_sync {
    pub message: piste_message,
    pub token: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of piste_message_sync",
    ][::core::mem::size_of::<piste_message_sync>() - 24usize];
    [
        "Alignment of piste_message_sync",
    ][::core::mem::align_of::<piste_message_sync>() - 8usize];
    [
        "Offset of field: piste_message_sync::message",
    ][::core::mem::offset_of!(piste_message_sync, message) - 0usize];
    [
        "Offset of field: piste_message_sync::token",
    ][::core::mem::offset_of!(piste_message_sync, token) - 16usize];
};
