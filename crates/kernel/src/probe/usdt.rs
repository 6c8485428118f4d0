// SPDX-License-Identifier: MIT OR Apache-2.0
//! Static probes that the authors of a program left in it with SystemTap's `sys/sdt.h`.
//!
//! A probe is one `nop` instruction and a note in the section `.note.stapsdt`, one for each place to which the compiler copied it:
//!
//! ```text
//!   name bytes: u32 | description bytes: u32 | type: u32 = 3 | "stapsdt\0"
//!   description: address of the nop | address of .stapsdt.base at link time | address of the semaphore or 0 | PROVIDER\0 NAME\0 ARGUMENTS\0
//! ```
//!
//! Addresses are as wide as the file's. A file that was moved after linking (prelink) has `.stapsdt.base` elsewhere than the note
//! says, and everything with it. The semaphore counts who listens, and the program looks at it before it computes the arguments.

use object::Object;

use super::elf::Elf;

/// A static probe at one of its places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Note {
    pub(super) provider: String,
    pub(super) probe: String,
    /// Of its instruction.
    pub(super) address: u64,
    /// Of its semaphore.
    pub(super) semaphore: Option<u64>,
    /// As the compiler wrote them: `-4@%edi 8@-16(%rbp)`.
    pub(super) arguments: String,
}

const TYPE: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";

/// The static probes of a file, by name, then address. Notes that are damaged are passed over.
pub(super) fn notes(elf: &Elf) -> Vec<Note> {
    let Some((section, _)) = elf.section(".note.stapsdt") else {
        return Vec::new();
    };
    let Some((is_little_endian, is_64)) = elf.parse().map(|file| (file.is_little_endian(), file.is_64())) else {
        return Vec::new();
    };
    let base = elf.section(".stapsdt.base").map(|(_, address)| address);
    let mut reader = Reader {
        rest: &section,
        is_little_endian,
        is_64,
    };
    let mut notes = Vec::new();
    while let Some(description) = reader.next() {
        notes.extend(description.and_then(|description| {
            let rest = description;
            Reader { rest, ..reader }.note(base)
        }));
    }
    notes.sort_unstable();
    notes.dedup();
    notes
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    rest: &'a [u8],
    is_little_endian: bool,
    is_64: bool,
}

impl<'a> Reader<'a> {
    /// The next note: its description, or nothing when it is another one's.
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let name_bytes = self.u32()? as usize;
        let description_bytes = self.u32()? as usize;
        let kind = self.u32()?;
        let name = self.padded(name_bytes)?;
        let description = self.padded(description_bytes)?;
        Some((kind == TYPE && name == OWNER).then_some(description))
    }

    fn note(mut self, base: Option<u64>) -> Option<Note> {
        let address = self.address()?;
        let base_when_linked = self.address()?;
        let semaphore = self.address()?;
        let moved = match base {
            Some(base) if base_when_linked != 0 => base.wrapping_sub(base_when_linked),
            _ => 0,
        };
        Some(Note {
            address: address.wrapping_add(moved),
            semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
            provider: self.text()?,
            probe: self.text()?,
            arguments: self.text()?,
        })
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    /// Parts of a note begin at multiples of four bytes; the last one's padding may be missing.
    fn padded(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let taken = self.take(bytes)?;
        let padding = bytes.next_multiple_of(4) - bytes;
        self.take(padding.min(self.rest.len()))?;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_little_endian {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    fn address(&mut self) -> Option<u64> {
        if !self.is_64 {
            return self.u32().map(u64::from);
        }
        let bytes = self.take(8)?.try_into().ok()?;
        Some(if self.is_little_endian {
            u64::from_le_bytes(bytes)
        } else {
            u64::from_be_bytes(bytes)
        })
    }

    fn text(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_bytes(owner: &[u8], addresses: [u64; 3], texts: &[u8]) -> Vec<u8> {
        let description: Vec<u8> = addresses
            .iter()
            .flat_map(|address| address.to_le_bytes())
            .chain(texts.iter().copied())
            .collect();
        let mut bytes = Vec::new();
        for word in [owner.len() as u32, description.len() as u32, TYPE] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(description);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn read(section: &[u8], base: Option<u64>) -> Vec<Option<Note>> {
        let mut reader = Reader {
            rest: section,
            is_little_endian: true,
            is_64: true,
        };
        let mut notes = Vec::new();
        while let Some(description) = reader.next() {
            notes.push(description.and_then(|rest| Reader { rest, ..reader }.note(base)));
        }
        notes
    }

    #[test]
    fn a_note_is_read_and_moved_with_its_base() {
        let mut section = note_bytes(b"GNU\0", [0; 3], b"");
        section.extend(note_bytes(OWNER, [0x1040, 0x2000, 0x4010], b"shop\0order\0-4@%edi\0"));
        let expected = Note {
            provider: "shop".into(),
            probe: "order".into(),
            address: 0x1140,
            semaphore: Some(0x4110),
            arguments: "-4@%edi".into(),
        };
        assert_eq!(read(&section, Some(0x2100)), [None, Some(expected)]);
    }

    #[test]
    fn damage_ends_the_list_and_nothing_else() {
        let whole = note_bytes(OWNER, [1, 2, 0], b"a\0b\0\0");
        assert_eq!(read(&whole, None).len(), 1);
        for bytes in 0..whole.len() {
            assert!(
                read(&whole[..bytes], None)
                    .into_iter()
                    .flatten()
                    .all(|note| note.provider == "a"),
                "{bytes}"
            );
        }
        assert_eq!(read(&[0xff; 64], None), []);
    }
}
