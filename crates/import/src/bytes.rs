// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and texts of a file of which nothing is believed: what it says to be there is taken only as far as it is there, and no memory is
//! taken for more.

use std::io::{self, ErrorKind, Read};

/// Reads a file, or a part of one, from its begin.
#[derive(Debug)]
pub(crate) struct Bytes<R> {
    inner: R,
    /// What is being read, as the end of a sentence.
    pub(crate) what: &'static str,
}

/// Why something cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The system does not let it.
    System(io::Error),
    /// It is not there, or not so: a sentence.
    Damaged(String),
}

impl From<String> for Unread {
    fn from(what: String) -> Unread {
        Unread::Damaged(what)
    }
}

/// Texts that end with a zero byte are not longer: names, and what tools say about a machine.
const TEXT_BYTES_MAX: u64 = 64 << 10;

impl<'a> Bytes<&'a [u8]> {
    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.inner)
    }
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(inner: R, what: &'static str) -> Bytes<R> {
        Bytes { inner, what }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Unread> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Unread> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Unread> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Unread> {
        let mut bytes = [0; COUNT];
        match self.inner.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// So many bytes, but no more than `most`.
    pub(crate) fn bytes(&mut self, count: u64, most: u64) -> Result<Vec<u8>, Unread> {
        if count > most {
            return Err(format!(
                "{} claims to have {count} bytes; at most {most} are supported",
                self.what
            )
            .into());
        }
        let mut bytes = Vec::new();
        let read = self.inner.by_ref().take(count).read_to_end(&mut bytes);
        match read {
            Ok(read) if read as u64 == count => Ok(bytes),
            Ok(_) => Err(self.cut()),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// The same as text. What is not UTF-8 is replaced.
    pub(crate) fn long_text(&mut self, count: u64, most: u64) -> Result<String, Unread> {
        let bytes = self.bytes(count, most)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    /// Text to the next zero byte.
    pub(crate) fn text(&mut self) -> Result<String, Unread> {
        let mut bytes = Vec::new();
        loop {
            let [byte] = self.array()?;
            if byte == 0 {
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            if bytes.len() as u64 == TEXT_BYTES_MAX {
                return Err(format!("a text of {} does not end", self.what).into());
            }
            bytes.push(byte);
        }
    }

    /// Goes over some bytes.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), Unread> {
        let skipped = io::copy(&mut self.inner.by_ref().take(count), &mut io::sink());
        match skipped {
            Ok(skipped) if skipped == count => Ok(()),
            Ok(_) => Err(self.cut()),
            Err(error) => Err(self.fault(error)),
        }
    }

    fn cut(&self) -> Unread {
        format!("it ends within {}", self.what).into()
    }

    fn fault(&self, error: io::Error) -> Unread {
        match error.kind() {
            ErrorKind::UnexpectedEof => self.cut(),
            _ => Unread::System(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T>(read: Result<T, Unread>) -> String {
        match read {
            Err(Unread::Damaged(what)) => what,
            Err(Unread::System(error)) => error.to_string(),
            Ok(_) => "fine".to_owned(),
        }
    }

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_said() {
        let bytes = [1, 0, 2, 0, 0, 0, b'a', 0, b'b', b'c'];
        let mut read = Bytes::new(&bytes[..], "the header");
        assert_eq!((read.u16().unwrap(), read.u32().unwrap()), (1, 2));
        assert_eq!(read.text().unwrap(), "a");
        assert_eq!(
            said(read.bytes(u64::MAX, 100)),
            "the header claims to have 18446744073709551615 bytes; at most 100 are supported"
        );
        assert_eq!(said(read.bytes(100, 100)), "it ends within the header");
        let mut read = Bytes::new(&bytes[8..], "the header");
        assert_eq!(said(read.text()), "it ends within the header");
        assert_eq!(said(Bytes::new(&bytes[..], "it").skip(11)), "it ends within it");
        let endless = vec![b'x'; TEXT_BYTES_MAX as usize + 2];
        assert_eq!(
            said(Bytes::new(&endless[..], "the options").text()),
            "a text of the options does not end"
        );
    }
}
