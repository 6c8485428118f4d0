// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that say whether addresses are shown with names, alike for every command that shows events.

use clap::Args;
use piste_modelling::{Network, Symbols};
use piste_trace::Trace;

#[derive(Args)]
pub(crate) struct SymbolOptions {
    /// Show which function or variable is at each address: `ip = 0x4011D6 <greet+0x4>`
    #[arg(long)]
    pub(crate) symbols: bool,
    /// With --symbols, download missing programs and debug files from the servers in DEBUGINFOD_URLS
    #[arg(long, requires = "symbols")]
    pub(crate) debuginfod: bool,
}

impl SymbolOptions {
    /// The names for the addresses in some traces, if they are wanted.
    pub(crate) fn of<'t>(&self, traces: &'t [Trace]) -> Option<Symbols<'t>> {
        let network = match self.debuginfod {
            true => Network::Debuginfod,
            false => Network::No,
        };
        self.symbols.then(|| Symbols::new(traces, network))
    }
}
