// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of code: of the files that are on this computer still, and of the kernel that was recorded.

use std::collections::HashMap;
use std::path::Path;

use piste_analysis::programs::code::{Code, File, Resolve};
use piste_modelling::KernelNames;
use piste_symbols::binary::Binary;
use piste_trace::Trace;

/// Looks names up, and opens each file once.
pub(super) struct Resolver {
    binaries: HashMap<File, Option<Binary>>,
    kernel: KernelNames,
}

impl Resolver {
    /// For some traces.
    pub(super) fn new(traces: &[Trace]) -> Resolver {
        Resolver {
            binaries: HashMap::new(),
            kernel: KernelNames::new(traces),
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
        notes.extend(self.kernel.note("the kernel's functions"));
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
        self.kernel.function(address).map(str::to_owned)
    }
}
