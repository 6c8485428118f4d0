// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder of a trace: its metadata, and the way to its streams.
//!
//! Nothing is written before the session starts. Metadata comes before the first packet that needs it.

use std::path::{Path, PathBuf};

use super::earlier::Earlier;
use super::metadata::Metadata;
use super::storage::StorageError;
use super::stream::{Identity, Paths, Stream};

#[derive(Debug)]
pub(super) struct TraceFolder {
    folder: PathBuf,
    pub(super) metadata: Metadata,
    pub(super) earlier: Earlier,
}

impl TraceFolder {
    /// The user domain's part of the trace in `output`. Streams that are there already are those of an earlier consumer; when
    /// they cannot be listed, the error is returned as well, and they are not counted.
    pub(super) fn open(output: &Path, metadata: Metadata) -> (Self, Option<StorageError>) {
        let folder = user_folder(output);
        let (earlier, error) = match Earlier::find(&folder) {
            Ok(earlier) => (earlier, None),
            Err(error) => (Earlier::default(), Some(error)),
        };
        (
            Self {
                folder,
                metadata,
                earlier,
            },
            error,
        )
    }

    /// Opens the stream of one ring, behind the packets that it has.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(super) fn open_stream(&mut self, channel: &str, identity: Identity) -> Result<Stream, StorageError> {
        let paths = Paths::new(&self.folder, channel, identity.stream_instance_id);
        let stream = Stream::open(paths, identity)?;
        self.earlier.claim(stream.paths());
        Ok(stream)
    }

    /// Writes what is new in the metadata; to be called before a packet is written.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn write_metadata(&mut self) -> Result<(), StorageError> {
        self.metadata.write(&self.folder)
    }

    /// The trace was begun, by this consumer or an earlier one.
    pub(super) fn exists(&self) -> bool {
        self.folder.join("metadata").exists()
    }
}

/// Where the user domain lies in a trace.
pub(super) fn user_folder(output: &Path) -> PathBuf {
    output.join("user")
}
