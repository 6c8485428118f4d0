// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel's memory: what shape it can have, what its header says, and which descriptors are refused.

#![cfg(not(loom))]

mod channel;

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use channel::{Channel, shape, write_one};
use piste_abi::{
    FromBytes, FromZeros, PISTE_ABI_MAJOR, PISTE_CHANNEL_MAGIC, PISTE_CONTEXT_VPID, PISTE_LOSS_BLOCK,
    piste_channel_header, piste_context,
};
use piste_ring::{ChannelMemory, Contexts, Geometry, Key, LossMode, OpenError, Shape, create};

fn key() -> Key {
    Key::new(0x1234).unwrap()
}

fn refusal(change: impl Fn(&mut Shape)) -> String {
    let mut shape = shape(LossMode::Discard);
    change(&mut shape);
    Geometry::new(shape).unwrap_err().to_string()
}

#[test]
fn a_shape_out_of_bounds_is_refused_with_a_sentence() {
    assert_eq!(
        refusal(|shape| shape.ring_count = 0),
        "a channel has 1 to 4096 rings, not 0"
    );
    assert_eq!(
        refusal(|shape| shape.subbuf_bytes = 5000),
        "a sub-buffer has 4096 to 67108864 bytes, a power of two, not 5000"
    );
    assert_eq!(
        refusal(|shape| shape.subbuf_count = 1),
        "a ring has 2 to 4096 sub-buffers, a power of two, not 1"
    );
    assert_eq!(
        refusal(|shape| (shape.subbuf_bytes, shape.subbuf_count) = (64 << 20, 4096)),
        "a ring has at most 17179869184 bytes, not 274877906944: take smaller or fewer sub-buffers"
    );
    assert_eq!(
        refusal(|shape| (shape.ring_count, shape.subbuf_bytes, shape.subbuf_count) = (4096, 64 << 20, 64)),
        "a channel has at most 17592186044416 bytes, not 35184372092928: take smaller or fewer sub-buffers"
    );
}

#[test]
fn the_largest_ring_has_offsets_within_the_header() {
    let largest = Shape {
        ring_count: 1,
        subbuf_bytes: 64 << 20,
        subbuf_count: 256,
        ..shape(LossMode::Discard)
    };
    let geometry = Geometry::new(largest).unwrap();
    let fd = create("piste-test", &geometry, key(), &Contexts::default()).unwrap();
    let channel = ChannelMemory::open(&fd, geometry, key()).unwrap();
    assert_eq!(channel.reader(0, 0).fill(), 0);
}

#[test]
fn the_header_says_what_the_program_needs() {
    let shape = Shape {
        block_timeout_us: 250,
        ..shape(LossMode::Block)
    };
    let geometry = Geometry::new(shape).unwrap();
    let vpid = piste_context {
        kind: PISTE_CONTEXT_VPID,
        ..piste_context::new_zeroed()
    };
    let contexts = Contexts {
        bits: 3,
        more: vec![vpid],
    };
    let file = File::from(create("piste-test", &geometry, key(), &contexts).unwrap());
    let mut bytes = [0; size_of::<piste_channel_header>()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let header = piste_channel_header::read_from_bytes(&bytes).unwrap();
    assert_eq!(
        (header.magic, header.version_major, header.struct_bytes),
        (PISTE_CHANNEL_MAGIC, PISTE_ABI_MAJOR as u16, 4096)
    );
    assert_eq!(
        (header.key, header.active_key, header.loss_mode),
        (0x1234, 0, PISTE_LOSS_BLOCK)
    );
    assert_eq!(
        (header.block_timeout_us, header.contexts, header.ring_count),
        (250, 3, 2)
    );
    let kinds = [header.more[0].kind, header.more[1].kind];
    assert_eq!((header.more_count, kinds), (1, [PISTE_CONTEXT_VPID, 0]));
    // A page with the words, 16384 bytes of data, 4 * 128 bytes of words, 2048 marks.
    assert_eq!(header.marks_offset_bytes, 20992);
    assert_eq!((header.ring_offset_bytes, header.ring_stride_bytes), (4096, 32768));
    assert_eq!(header.total_bytes, 4096 + 2 * 32768);
    assert_eq!(file.metadata().unwrap().len(), header.total_bytes);
}

#[test]
fn untouched_rings_take_no_memory() {
    let large = Shape {
        ring_count: 4096,
        subbuf_bytes: 256 << 10,
        ..shape(LossMode::Discard)
    };
    let geometry = Geometry::new(large).unwrap();
    let file = File::from(create("piste-test", &geometry, key(), &Contexts::default()).unwrap());
    let channel = ChannelMemory::open(&file, geometry, key()).unwrap();
    channel.set_recording(true);
    assert_eq!(channel.touched().count(), 0);
    assert_eq!(file.metadata().unwrap().blocks() * 512, 4096, "the channel header");
}

#[test]
fn a_descriptor_that_is_not_the_memory_is_refused() {
    let geometry = Geometry::new(shape(LossMode::Discard)).unwrap();
    let other = Geometry::new(Shape {
        ring_count: 3,
        ..shape(LossMode::Discard)
    })
    .unwrap();
    let fd = create("piste-test", &other, key(), &Contexts::default()).unwrap();
    assert!(matches!(
        ChannelMemory::open(fd, geometry, key()),
        Err(OpenError::Size {
            found: 102400,
            expected: 69632
        })
    ));
    let file = tempfile::tempfile().unwrap();
    file.set_len(geometry.total_bytes()).unwrap();
    assert!(matches!(
        ChannelMemory::open(&file, geometry, key()),
        Err(OpenError::NotSealed)
    ));
}

#[test]
fn the_memory_cannot_be_cut() {
    let geometry = Geometry::new(shape(LossMode::Discard)).unwrap();
    let file = File::from(create("piste-test", &geometry, key(), &Contexts::default()).unwrap());
    assert!(file.set_len(4096).is_err());
    assert!(file.set_len(1 << 30).is_err());
}

#[test]
fn recording_is_the_key_in_the_header() {
    let channel = Channel::new(shape(LossMode::Discard));
    assert_eq!(channel.program.active_key(), 0);
    channel.memory.set_recording(true);
    assert_eq!(channel.program.active_key(), 9);
    channel.memory.set_recording(false);
    assert_eq!(channel.program.active_key(), 0);
}

#[test]
fn a_program_that_stops_finds_the_windows_of_its_rings_closed() {
    let channel = Channel::new(shape(LossMode::Discard));
    channel.memory.set_recording(true);
    let writers = [0, 1].map(|ring_index| channel.program.writer(ring_index, 0));
    write_one(&writers[1], 0, 0);
    writers[1].open_window(5);
    assert!(writers[1].finds_window(5));
    channel.memory.set_recording(false);
    assert!(!writers[1].finds_window(5));
    writers[1].open_window(5);
    assert!(!writers[1].finds_window(5), "it looks again");
    assert!(writers[0].finds_window(0), "a ring that nobody wrote to is left alone");
}

#[test]
fn touched_rings_are_named_and_no_others() {
    let channel = Channel::new(Shape {
        ring_count: 130,
        ..shape(LossMode::Discard)
    });
    for ring_index in [129, 0, 64] {
        write_one(&channel.program.writer(ring_index, 0), 0, 0);
    }
    // Bit 1 of the third word is ring 129; the rest of that word is of rings that do not exist.
    channel.program.scribble((256 + 16) / 8, u64::MAX);
    assert_eq!(channel.memory.touched().collect::<Vec<_>>(), [0, 64, 128, 129]);
}
