// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of trace-cmd that are cut or changed: each becomes a trace that can be read, or is refused with a sentence. What whole files become
//! is compared with what trace-cmd says in tests/suite/tests/imports.rs.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use flate2::read::GzDecoder;
use piste_ctf::index;
use piste_ctf::packet::KernelHeader;
use piste_ctf::read::metadata;
use piste_import::{ImportError, Imported, Tracer, Watch};

fn sample(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let bytes = fs::read(path).unwrap();
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
    unpacked
}

fn samples() -> [(&'static str, Vec<u8>, u64); 6] {
    [
        ("v7.dat", 957),
        ("v6two.dat.gz", 790),
        ("lost.dat", 4162),
        ("calls.dat", 340),
        ("stacks.dat", 50),
        ("date.dat", 155),
    ]
    .map(|(name, events)| (name, sample(name), events))
}

/// Imports bytes as a file. What comes of it can be read: metadata, and packets that are where their index says.
fn import(bytes: &[u8]) -> Result<Imported, ImportError> {
    let place = tempfile::tempdir().unwrap();
    let (file, folder) = (place.path().join("trace.dat"), place.path().join("trace"));
    fs::write(&file, bytes).unwrap();
    fs::create_dir(&folder).unwrap();
    let imported = Tracer::TraceCmd.import(&file, &folder, &Watch::new(|| false));
    if imported.is_ok() {
        for trace in fs::read_dir(&folder).unwrap() {
            check(&trace.unwrap().path());
        }
    }
    imported
}

fn check(trace: &Path) {
    metadata::parse(&fs::read(trace.join("metadata")).unwrap()).unwrap();
    let indices: Vec<PathBuf> = fs::read_dir(trace.join("index"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for path in indices {
        let stream = fs::read(trace.join(path.file_stem().unwrap())).unwrap();
        let mut end_bytes = 0;
        for entry in index::decode(&fs::read(&path).unwrap()).unwrap() {
            assert_eq!(entry.offset_bytes, end_bytes);
            end_bytes += entry.packet_bits / 8;
            let packet = &stream[entry.offset_bytes as usize..end_bytes as usize];
            assert_eq!(
                KernelHeader::decode(packet).unwrap().packet_seq_num,
                entry.packet_seq_num
            );
            assert!(entry.content_bits <= entry.packet_bits && entry.timestamp_begin <= entry.timestamp_end);
        }
        assert_eq!(end_bytes as usize, stream.len());
    }
}

#[test]
fn whole_files_become_traces_with_all_their_events() {
    for (name, bytes, events) in samples() {
        let imported = import(&bytes).unwrap();
        assert_eq!(imported.events, events, "{name}");
        let knows_date = name == "date.dat";
        assert_eq!(imported.notes.is_empty(), knows_date, "{name}: {:?}", imported.notes);
    }
}

#[test]
fn a_file_is_recognized_by_its_begin() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    assert!(Tracer::of(&path).is_err());
    assert_eq!(Tracer::of(place.path()).unwrap(), None);
    for (bytes, source) in [
        (&b"\x17\x08\x44tracing6"[..], Some(Tracer::TraceCmd)),
        (b"\x17\x08\x44tracin", None),
        (b"PERFILE2", None),
        (b"", None),
    ] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(Tracer::of(&path).unwrap(), source, "{bytes:?}");
    }
}

#[test]
fn a_cut_file_is_a_part_of_the_trace_or_is_refused() {
    for (name, bytes, events) in samples() {
        let step = bytes.len() / 60 + 1;
        let (mut refused, mut read) = (0, 0);
        for cut in (0..bytes.len()).step_by(step).chain([bytes.len() - 1]) {
            match import(&bytes[..cut]) {
                Ok(imported) => {
                    read += 1;
                    assert!(imported.events <= events, "{name}, cut at {cut}: {imported:?}");
                    assert!(imported.notes.len() <= 101);
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().starts_with("cannot read "), "{error}");
                }
            }
        }
        // Version 7 has its options at the end.
        assert!(
            refused > 0 && (read > 0 || !name.starts_with("v6")),
            "{name}: {refused} refused, {read} read"
        );
    }
}

#[test]
fn a_cut_file_of_version_6_says_what_is_missing() {
    let bytes = sample("v6two.dat.gz");
    let imported = import(&bytes[..bytes.len() - 5000]).unwrap();
    assert!(imported.events > 400 && imported.events < 790, "{imported:?}");
    let is_said = |note: &String| note.contains("the file ends before its data does");
    assert!(imported.notes.iter().any(is_said), "{:?}", imported.notes);
}

#[test]
fn changed_bytes_are_refused_or_cost_no_more_than_what_they_were_of() {
    let mut random = Rng::with_seed(7);
    for (name, bytes, _) in samples() {
        let mut read = 0;
        for _ in 0..60 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let place = random.usize(10..changed.len());
                changed[place] = match random.u8(0..3) {
                    0 => 0xff,
                    1 => 0,
                    _ => random.u8(..),
                };
            }
            read += u32::from(import(&changed).is_ok());
        }
        assert!(read > 5, "{name}: {read} were read");
    }
}

#[test]
fn changed_headers_are_refused_with_a_sentence() {
    let bytes = sample("v7.dat");
    let said = |place: usize, with: &[u8]| {
        let mut changed = bytes.clone();
        changed[place..place + with.len()].copy_from_slice(with);
        import(&changed)
            .unwrap_err()
            .to_string()
            .split_once("trace.dat: ")
            .unwrap()
            .1
            .to_owned()
    };
    assert_eq!(
        said(10, b"8"),
        "version 8 of the format trace.dat is not supported; 6 and 7 are"
    );
    assert_eq!(
        said(12, b"\x01"),
        "it was recorded on a big-endian machine, which is not supported"
    );
    assert_eq!(said(14, &[0xff; 4]), "it claims to have pages of 4294967295 bytes");
    assert_eq!(
        said(18, b"lzma"),
        "it is compressed with \"lzma\", which is not supported; zlib and zstd are"
    );
    assert_eq!(said(29, &u64::MAX.to_le_bytes()), "it ends within its options");
    assert_eq!(said(29, &100_u64.to_le_bytes()), "its options are not at byte 100");
}

#[test]
fn options_that_lead_back_to_themselves_end() {
    let mut bytes = sample("v7.dat");
    // The last option of the last section: where the next one is.
    let last_options = 17_680_u64;
    let done = bytes.len() - (bytes.len() - (last_options as usize + 16 + 83)) - 8;
    bytes[done..done + 8].copy_from_slice(&last_options.to_le_bytes());
    let error = import(&bytes).unwrap_err().to_string();
    assert!(error.ends_with("its options do not end"), "{error}");
}

#[test]
fn an_import_ends_when_it_is_to() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace.dat");
    fs::write(&file, sample("v7.dat")).unwrap();
    let stopped = Tracer::TraceCmd.import(&file, place.path(), &Watch::new(|| true));
    assert!(matches!(stopped, Err(ImportError::Stopped)));
}

#[test]
fn the_same_file_is_the_same_trace() {
    let uuid = |bytes: &[u8]| {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("trace.dat");
        fs::write(&file, bytes).unwrap();
        Tracer::TraceCmd
            .import(&file, place.path(), &Watch::new(|| false))
            .unwrap();
        fs::read_to_string(place.path().join("kernel/metadata"))
            .unwrap()
            .lines()
            .find(|line| line.contains("uuid ="))
            .unwrap()
            .to_owned()
    };
    let (one, other) = (sample("v7.dat"), sample("date.dat"));
    assert_eq!(uuid(&one), uuid(&one));
    assert_ne!(uuid(&one), uuid(&other));
}
