// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste calibrate`.

use clap::Args;

use super::reading::PageOptions;

/// Measure what recording an event costs, and save the result
///
/// Measures Piste with the method of `piste bench`, and saves the result in a file. From then on, `piste analyze periods --top` shows, for traces of
/// this machine, how much of each duration was spent on recording. Takes about a minute. Measuring events of programs needs a C compiler; measuring
/// events of the kernel needs root. Costs that cannot be measured are not saved. Measure again after you change the kernel or the processor.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo piste calibrate
  piste calibrate --show

Exit status: 0; 1 if nothing could be measured or, with --show, if no result is saved for this machine.")]
pub(crate) struct Calibrate {
    /// Measure nothing; show the saved result for this machine
    #[arg(long, conflicts_with = "quick")]
    pub(crate) show: bool,
    /// Measure for only a few seconds; the result is less exact, but also replaces the saved one
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) page: PageOptions,
}
