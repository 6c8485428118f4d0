// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of code: of the files that are on this computer still, and of the kernel that runs, if traces are of it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use piste_analysis::programs::code::{Code, File, Resolve};
use piste_symbols::binary::Binary;
use piste_symbols::kernel::KernelSymbols;
use piste_trace::Trace;

/// Looks names up, and opens each file once.
pub(super) struct Resolver {
    binaries: HashMap<File, Option<Binary>>,
    /// Read when it is first needed.
    kernel: Option<KernelSymbols>,
    is_of_this_boot: bool,
    wants_kernel: bool,
}

impl Resolver {
    /// For some traces.
    pub(super) fn new(traces: &[Trace]) -> Resolver {
        let boot = boot_id();
        let is_of_this_boot = |trace: &Trace| trace.schema().clocks.iter().any(|clock| clock.uuid == boot);
        Resolver {
            binaries: HashMap::new(),
            kernel: None,
            is_of_this_boot: boot.is_some() && traces.iter().all(is_of_this_boot),
            wants_kernel: false,
        }
    }

    /// Sentences about names that are not known.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut unknown: Vec<&str> = self
            .binaries
            .iter()
            .filter(|(file, binary)| binary.is_none() && file.path.starts_with('/'))
            .map(|(file, _)| &*file.path)
            .collect();
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            notes.push(format!(
                "functions in these files have no names, because the files are gone or have changed: {}",
                unknown.join(", ")
            ));
        }
        if self.wants_kernel && !self.is_of_this_boot {
            notes.push(
                "the kernel's functions have no names: the trace is from another boot or another machine".to_owned(),
            );
        } else if self.wants_kernel && self.kernel.as_ref().is_none_or(KernelSymbols::is_empty) {
            notes.push("the kernel's functions have no names: only root may read their addresses".to_owned());
        }
        notes
    }
}

impl Resolver {
    fn binary(&mut self, file: &File) -> Option<&Binary> {
        if !self.binaries.contains_key(file) {
            let binary = Binary::open(Path::new(&*file.path), file.build_id.as_deref());
            self.binaries.insert(file.clone(), binary);
        }
        self.binaries.get(file)?.as_ref()
    }
}

impl Resolve for Resolver {
    fn function_at(&mut self, file: &File, offset: u64) -> Option<u64> {
        self.binary(file)?.function_at(offset)
    }

    fn in_file(&mut self, file: &File, offset: u64) -> Option<Code> {
        let code = self.binary(file)?.code(offset)?;
        let line = code.line.map(|line| {
            let name = line.path.rsplit('/').next().unwrap_or_default();
            format!("{name}:{}", line.number)
        });
        Some(Code {
            function: code.function,
            line: line.unwrap_or_default(),
        })
    }

    fn in_kernel(&mut self, address: u64) -> Option<String> {
        self.wants_kernel = true;
        if !self.is_of_this_boot {
            return None;
        }
        let symbols = self
            .kernel
            .get_or_insert_with(|| KernelSymbols::read().unwrap_or_default());
        symbols.function(address).map(str::to_owned)
    }
}

/// What clocks of this boot are known by.
fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}
