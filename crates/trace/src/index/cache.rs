// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of a large trace, kept in `.piste-index` in its folder. Whoever cannot read it, or finds that a file has changed, builds
//! it again. So it is written under its own name, and a writer that is killed leaves nothing else: the sum at its end tells that it is not whole.
//!
//! All numbers are little-endian and of 64 bits:
//!
//! | what | |
//! |---|---|
//! | `PISTEIX3` | 8 bytes |
//! | FNV-1a of the metadata | what packets are, and where, depends on it |
//! | number of files, then for each: | |
//! | length of its name, the name | of a file in the folder |
//! | size, time of the last change in nanoseconds since 1970 | |
//! | class, stream, CPU, number of the first packet | `u64::MAX` for none |
//! | number of packets, then of each: offset, bytes, begin, end, 1 if it has no events | `u64::MAX` for none |
//! | number of losses, then of each: packet, discarded events, lost packets | |
//! | FNV-1a of everything before | |

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{FileState, Loss, Packet, StreamIndex};
use crate::finding::Findings;
use crate::regular;

/// Files with fewer packets are looked at again in no time.
pub(super) const PACKETS_MIN: usize = 1000;
const NAME: &str = ".piste-index";
const MAGIC: &[u8; 8] = b"PISTEIX3";
/// More would be no index of a trace.
const BYTES_MAX: u64 = 4 << 30;
/// Bytes of what there is once, of a file without its name, of a packet, of a loss.
const HEAD_BYTES: u64 = 8 * 3 + SUM_BYTES;
const FILE_BYTES: u64 = 8 * 9;
const PACKET_BYTES: u64 = 8 * 5;
const LOSS_BYTES: u64 = 8 * 3;
const SUM_BYTES: u64 = 8;
/// So many are summed at once: whole words.
const BLOCK_BYTES: usize = 64 << 10;
const FNV_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;

/// What is kept of these files; nothing when it is missing or damaged, or of other metadata.
pub(super) fn load(folder: &Path, metadata: &[u8], files: &[(PathBuf, FileState)]) -> Vec<StreamIndex> {
    read(&folder.join(NAME), bytes_max(files))
        .ok()
        .flatten()
        .and_then(|bytes| decode(folder, &bytes))
        .filter(|(of_metadata, _)| *of_metadata == fnv(metadata))
        .map_or(Vec::new(), |(_, streams)| streams)
}

/// An index of these files has no more, as each of their packets has a byte and one loss at most.
fn bytes_max(files: &[(PathBuf, FileState)]) -> u64 {
    let of_file = |(path, state): &(PathBuf, FileState)| {
        let name = path.file_name().unwrap_or_default().len() as u64;
        (FILE_BYTES + name).saturating_add(state.bytes.saturating_mul(PACKET_BYTES + LOSS_BYTES))
    };
    let of_files = files.iter().map(of_file).fold(HEAD_BYTES, u64::saturating_add);
    of_files.min(BYTES_MAX)
}

/// The file, if it is whole and not too large. Its sum is looked at first: what has another may be nothing but a large hole.
fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = regular::open(path)?;
    let bytes = file.metadata()?.len();
    let Some(content_bytes) = bytes.checked_sub(SUM_BYTES).filter(|_| bytes <= bytes_max) else {
        return Ok(None);
    };
    let (mut sum, mut left) = (FNV_BEGIN, content_bytes);
    let mut block = vec![0; BLOCK_BYTES];
    while left > 0 {
        let part = &mut block[..left.min(BLOCK_BYTES as u64) as usize];
        file.read_exact(part)?;
        sum = fnv_on(sum, part);
        left -= part.len() as u64;
    }
    let mut said = [0; SUM_BYTES as usize];
    file.read_exact(&mut said)?;
    if sum != u64::from_le_bytes(said) {
        return Ok(None);
    }
    let mut whole = vec![0; bytes as usize];
    file.read_exact_at(&mut whole, 0)?;
    Ok(Some(whole))
}

/// Keeps the indices of files that nothing was wrong with.
pub(super) fn save(folder: &Path, metadata: &[u8], streams: &[StreamIndex], findings: &Findings) -> io::Result<()> {
    let is_whole = |stream: &&StreamIndex| findings.iter().all(|finding| finding.file != stream.path);
    let streams: Vec<&StreamIndex> = streams.iter().filter(is_whole).collect();
    let path = folder.join(NAME);
    // Whoever reads the old one goes on with it.
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    // Whoever may read the trace may read its index, and nobody else.
    let mode = fs::metadata(folder.join("metadata"))?.mode() & 0o666;
    let mut file = File::options().write(true).create_new(true).mode(mode).open(&path)?;
    let written = file.write_all(&encode(fnv(metadata), &streams));
    if written.is_err() {
        let _ = fs::remove_file(&path);
    }
    written
}

fn encode(of_metadata: u64, streams: &[&StreamIndex]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    put_all(&mut bytes, &[of_metadata, streams.len() as u64]);
    for stream in streams {
        let name = stream.path.file_name().unwrap_or_default().as_encoded_bytes();
        put_all(&mut bytes, &[name.len() as u64]);
        bytes.extend(name);
        let none = u64::MAX;
        put_all(
            &mut bytes,
            &[
                stream.state.bytes,
                stream.state.modified_ns,
                stream.class_id,
                stream.stream_id.unwrap_or(none),
                stream.cpu_id.unwrap_or(none),
                stream.first_number.unwrap_or(none),
                stream.packets.len() as u64,
            ],
        );
        for packet in &stream.packets {
            let (begin, end) = (packet.begin.unwrap_or(none), packet.end.unwrap_or(none));
            let is_empty = packet.is_empty.into();
            put_all(&mut bytes, &[packet.offset, packet.bytes, begin, end, is_empty]);
        }
        put_all(&mut bytes, &[stream.losses.len() as u64]);
        for loss in &stream.losses {
            put_all(&mut bytes, &[loss.packet, loss.discarded_events, loss.lost_packets]);
        }
    }
    let sum = fnv(&bytes);
    put_all(&mut bytes, &[sum]);
    bytes
}

fn put_all(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// The sum of the metadata, and the streams.
fn decode(folder: &Path, bytes: &[u8]) -> Option<(u64, Vec<StreamIndex>)> {
    let (content, sum) = bytes.split_last_chunk()?;
    if fnv(content) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?;
    let (of_metadata, count) = (number(&mut rest)?, number(&mut rest)?);
    let mut streams = Vec::new();
    for _ in 0..count {
        let name_bytes = usize::try_from(number(&mut rest)?).ok()?;
        let (name, behind) = rest.split_at_checked(name_bytes)?;
        rest = behind;
        let name = std::str::from_utf8(name).ok()?;
        let mut next = || number(&mut rest);
        let optional = |number: u64| (number != u64::MAX).then_some(number);
        let state = FileState {
            bytes: next()?,
            modified_ns: next()?,
        };
        let (class_id, stream_id, cpu_id) = (next()?, optional(next()?), optional(next()?));
        let first_number = optional(next()?);
        let packets = (0..next()?).map(|_| {
            Some(Packet {
                offset: next()?,
                bytes: next()?,
                begin: optional(next()?),
                end: optional(next()?),
                is_empty: match next()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            })
        });
        let packets = packets.collect::<Option<Vec<Packet>>>()?;
        let losses = (0..next()?).map(|_| {
            Some(Loss {
                packet: next()?,
                discarded_events: next()?,
                lost_packets: next()?,
            })
        });
        let losses = losses.collect::<Option<Vec<Loss>>>()?;
        let stream = StreamIndex {
            path: folder.join(name),
            state,
            class_id,
            stream_id,
            number: 0,
            cpu_id,
            first_number,
            packets,
            losses,
            missing_packets: 0,
        };
        if !is_file_name(name) || !is_sound(&stream) {
            return None;
        }
        streams.push(stream);
    }
    rest.is_empty().then_some((of_metadata, streams))
}

/// Of an index without its first bytes and its sum: asserts that it is refused, or is one, and is what would be kept of it.
#[cfg(feature = "fuzzing")]
pub(crate) fn check(content: &[u8]) {
    let mut bytes = [MAGIC, content].concat();
    let sum = fnv(&bytes);
    put_all(&mut bytes, &[sum]);
    let Some((of_metadata, streams)) = decode(Path::new("/trace"), &bytes) else {
        return;
    };
    for stream in &streams {
        assert!(is_sound(stream), "{stream:?}");
    }
    assert_eq!(encode(of_metadata, &streams.iter().collect::<Vec<_>>()), bytes);
}

/// Of a file in the folder, no way out of it.
fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|found| found == name)
}

/// Packets are in the file, one behind the other, and losses are told by packets.
fn is_sound(stream: &StreamIndex) -> bool {
    let mut free = 0;
    let in_order = stream.packets.iter().all(|packet| {
        let end = packet.offset.checked_add(packet.bytes);
        let fits = packet.offset >= free && end.is_some_and(|end| end <= stream.state.bytes);
        free = end.unwrap_or(u64::MAX);
        fits
    });
    in_order
        && stream
            .losses
            .iter()
            .all(|loss| loss.packet < stream.packets.len() as u64)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_le_bytes(*number))
}

/// Fowler, Noll and Vo: finds damage, not malice; whoever may write here may write the trace.
fn fnv(bytes: &[u8]) -> u64 {
    fnv_on(FNV_BEGIN, bytes)
}

/// Goes on with a sum of whole words.
fn fnv_on(sum: u64, bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: &[u8]| {
        let mut number = [0; 8];
        number[..word.len()].copy_from_slice(word);
        (sum ^ u64::from_le_bytes(number)).wrapping_mul(0x0000_0100_0000_01b3)
    };
    bytes.chunks(8).fold(sum, step)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn streams() -> Vec<StreamIndex> {
        vec![StreamIndex {
            path: "/trace/channel_0".into(),
            state: FileState {
                bytes: 8192,
                modified_ns: 77,
            },
            class_id: 1,
            stream_id: None,
            number: 0,
            cpu_id: Some(3),
            first_number: Some(0),
            packets: vec![Packet {
                offset: 0,
                bytes: 4096,
                begin: Some(5),
                end: None,
                is_empty: false,
            }],
            losses: vec![Loss {
                packet: 0,
                discarded_events: 9,
                lost_packets: 0,
            }],
            missing_packets: 0,
        }]
    }

    #[test]
    fn what_is_kept_is_what_was_built() {
        let streams = streams();
        let bytes = encode(7, &streams.iter().collect::<Vec<_>>());
        assert_eq!(decode(Path::new("/trace"), &bytes), Some((7, streams)));
    }

    #[test]
    fn index_is_for_those_whom_the_trace_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = folder.path().join("metadata");
        fs::write(&metadata, "").unwrap();
        for mode in [0o600, 0o700, 0o400] {
            fs::set_permissions(&metadata, fs::Permissions::from_mode(mode)).unwrap();
            save(folder.path(), b"", &[], &Findings::default()).unwrap();
            let saved = fs::metadata(folder.path().join(NAME)).unwrap().mode();
            assert_eq!(saved & 0o777, mode & 0o600);
        }
    }

    #[test]
    fn damage_anywhere_is_seen() {
        let streams = streams();
        let bytes = encode(7, &streams.iter().collect::<Vec<_>>());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(decode(Path::new("/trace"), &damaged), None, "byte {at}");
            assert_eq!(decode(Path::new("/trace"), &bytes[..at]), None, "cut to {at}");
        }
    }
}
