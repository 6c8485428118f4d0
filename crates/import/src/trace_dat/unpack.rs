// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compressed data: what it says to be long is what it may become, and no more.

use std::io::Read;

use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

/// How the compressed sections of a file are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Zlib,
    Zstd,
}

/// What zstd's data begins with, unless it was left out.
const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

impl Compression {
    /// By the name in a file.
    pub(crate) fn of(name: &str) -> Option<Compression> {
        match name {
            "none" => Some(Compression::None),
            "zlib" => Some(Compression::Zlib),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// What `packed` was, which had `bytes`.
    pub(crate) fn unpack(self, packed: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
        let unpacked = match self {
            Compression::None => Ok(packed.to_vec()),
            Compression::Zlib => all(ZlibDecoder::new(packed), bytes),
            Compression::Zstd => {
                let magic: &[u8] = if packed.starts_with(&ZSTD_MAGIC) {
                    &[]
                } else {
                    &ZSTD_MAGIC
                };
                match StreamingDecoder::new(magic.chain(packed)) {
                    Ok(decoder) => all(decoder, bytes),
                    Err(_) => Err(()),
                }
            }
        };
        match unpacked {
            Ok(unpacked) if unpacked.len() == bytes => Ok(unpacked),
            _ => Err("its compressed data is damaged".to_owned()),
        }
    }
}

/// A byte more than expected is one too many.
fn all(from: impl Read, bytes: usize) -> Result<Vec<u8>, ()> {
    let mut unpacked = Vec::new();
    let read = from.take(bytes as u64 + 1).read_to_end(&mut unpacked);
    read.map(|_| unpacked).map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::ZlibEncoder;

    use super::*;

    #[test]
    fn only_what_is_as_long_as_it_says_is_unpacked() {
        let text = b"sched_switch sched_switch sched_switch";
        let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(Compression::Zlib.unpack(&packed, text.len()).unwrap(), text);
        for wrong in [0, text.len() - 1, text.len() + 1] {
            assert!(Compression::Zlib.unpack(&packed, wrong).is_err());
        }
        for compression in [Compression::Zlib, Compression::Zstd] {
            for cut in 0..packed.len() {
                assert!(compression.unpack(&packed[..cut], text.len()).is_err());
            }
        }
        assert_eq!(Compression::None.unpack(text, text.len()).unwrap(), text);
    }
}
