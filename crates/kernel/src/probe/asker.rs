// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who asks for a probe, and what is for root alone.

use super::error::ProbeError;

/// Who asks for a probe. Whoever is not root must neither change what programs of others do nor read their memory.
///
/// | | root | others |
/// |---|---|---|
/// | beginning of a function, static probe | yes | yes |
/// | `SYMBOL+OFFSET` where an instruction begins | yes | yes, of x86 programs |
/// | `0xOFFSET` of the file | yes, unchecked | no |
/// | returns: they are probed by changing the stack | yes | no |
/// | registers, constants, `$comm` | yes | yes |
/// | what is read from memory | yes | no; a static probe is recorded without it |
/// | the kernel's functions, whose registers tell where the kernel lies | yes | no |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Root, or whoever runs pisted.
    Root,
    /// Another user, whom root lets ask.
    Other,
}

impl Asker {
    /// Refuses others than root: `what`, and what they can do about it.
    pub(super) fn must_be_root(self, what: impl Into<String>, mend: &str) -> Result<(), ProbeError> {
        match self {
            Asker::Root => Ok(()),
            Asker::Other => Err(ProbeError::RootOnly {
                what: what.into(),
                mend: mend.into(),
            }),
        }
    }
}
