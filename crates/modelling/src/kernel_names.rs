// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions and variables: those of the kernel that runs, if traces are of it.

use std::fs;
use std::sync::OnceLock;

use piste_symbols::kernel::KernelSymbols;
use piste_trace::Trace;

/// The names, which are read when one is asked for.
#[derive(Debug)]
pub struct KernelNames {
    is_of_this_boot: bool,
    symbols: OnceLock<KernelSymbols>,
}

impl KernelNames {
    /// For some traces.
    pub fn new(traces: &[Trace]) -> KernelNames {
        KernelNames {
            is_of_this_boot: is_of_this_boot(traces),
            symbols: OnceLock::new(),
        }
    }

    /// All of them; none where they cannot be known.
    pub fn symbols(&self) -> &KernelSymbols {
        self.symbols.get_or_init(|| match self.is_of_this_boot {
            true => KernelSymbols::read().unwrap_or_default(),
            false => KernelSymbols::default(),
        })
    }

    /// Why some that were asked for are not known, if so: a sentence, for those who call them like this.
    pub fn note(&self, what: &str) -> Option<String> {
        let why = match self.symbols.get()? {
            _ if !self.is_of_this_boot => "the trace is from another boot or another machine",
            symbols if symbols.is_empty() => "only root may read their addresses",
            _ => return None,
        };
        Some(format!("{what} have no names: {why}"))
    }
}

/// Traces are all of the time since this computer was started.
pub(crate) fn is_of_this_boot(traces: &[Trace]) -> bool {
    let boot = boot_id();
    let is_of_it = |trace: &Trace| trace.schema().clocks.iter().any(|clock| clock.uuid == boot);
    boot.is_some() && traces.iter().all(is_of_it)
}

/// What clocks of this boot are known by.
fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}
