// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste calibrate`.

use clap::Args;

use super::reading::PageOptions;

/// Measure and keep what recording an event costs
///
/// Measures Piste with the method of `piste bench`, and keeps the result in a file. From then on, `piste analyze periods --top` shows for traces of this
/// machine how much of each duration was the recording itself. Takes about a minute. Events of programs need a C compiler, those of the kernel need
/// root; what cannot be measured is not kept. Measure again after you change the kernel or the processor.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo piste calibrate
  piste calibrate --show

Exit status: 0, or 1 if nothing could be measured, or with --show, if nothing is kept.")]
pub(crate) struct Calibrate {
    /// Measure nothing; show what is kept for this machine
    #[arg(long, conflicts_with = "quick")]
    pub(crate) show: bool,
    /// Measure for a few seconds only, which is less exact; replaces what is kept, too
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) page: PageOptions,
}
