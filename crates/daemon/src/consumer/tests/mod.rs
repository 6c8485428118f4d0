// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the consumer as a whole must do, shown with programs that can be stopped, killed and made to lie, and read back with
//! babeltrace2. rig.rs drives, writer.rs is the program.

mod flushes;
mod process;
mod rig;
mod rotation;
mod snapshots;
pub(crate) mod stepped;
mod streams;
mod triggers;
mod trouble;
pub(crate) mod writer;
