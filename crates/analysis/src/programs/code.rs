// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in code, and their names. Who has the files gives the names; here is what becomes of places without one.

use super::images::{ImageId, Images};

/// A file whose code runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct File {
    /// Where it was.
    pub path: Box<str>,
    /// By which it is known to be the same still.
    pub build_id: Option<Box<[u8]>>,
}

/// A file that [`Images`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(super) u32);

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Of a program or library: so many bytes behind its first one in memory.
    InFile {
        /// Which one.
        file: FileId,
        /// In bytes.
        offset: u64,
    },
    /// Of a program, and nothing says what lies there.
    Unknown {
        /// The program.
        image: ImageId,
        /// In its memory.
        address: u64,
    },
    /// Of the kernel.
    Kernel {
        /// In its memory.
        address: u64,
    },
}

/// What a place is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The function; what stands for it where no name is known.
    pub function: String,
    /// `FILE:LINE`; empty when it is not known.
    pub line: String,
}

/// Gives names to places: who has the files.
pub trait Resolve {
    /// Of code of a program or library.
    fn in_file(&mut self, file: &File, offset: u64) -> Option<Code>;
    /// Where the function begins that the code is of, as the linker has it: what was put into it is a part of it.
    fn function_at(&mut self, file: &File, offset: u64) -> Option<u64>;
    /// Of code of the kernel.
    fn in_kernel(&mut self, address: u64) -> Option<String>;
}

/// Which instruction an address stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stands {
    /// The one at it.
    ForItself,
    /// The call before it, to which it returns.
    ForTheCall,
}

impl Place {
    /// Its name: `function`, else `file+0xoffset`, else `0xaddress`.
    pub fn name(self, stands: Stands, images: &Images, resolve: &mut dyn Resolve) -> Code {
        // A call may be the last instruction of its function.
        let back = match stands {
            Stands::ForItself => 0,
            Stands::ForTheCall => 1,
        };
        let nameless = |function: String| Code {
            function,
            line: String::new(),
        };
        // What was loaded may be said after the first events.
        let place = match self {
            Place::Unknown { image, address } => images.place(image, address),
            known => known,
        };
        match place {
            Place::InFile { file, offset } => {
                let file = images.file(file);
                resolve
                    .in_file(file, offset.saturating_sub(back))
                    .unwrap_or_else(|| nameless(format!("{}+{offset:#x}", base_name(&file.path))))
            }
            Place::Unknown { address, .. } => nameless(format!("{address:#x}")),
            Place::Kernel { address } => {
                let name = resolve.in_kernel(address.saturating_sub(back));
                nameless(name.unwrap_or_else(|| format!("{address:#x}")))
            }
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}
